#pragma once

#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace partita {

// Whether a file can be written there, found out before the work whose result it is to hold, as
// CheckWritableFile. `flag` ("--save") says where the user can name another place. OK for "".
absl::Status CheckWritable(const std::string& path, absl::string_view flag);

struct NamedFile {
  std::string name;  // for people: "--save", "the plan"
  std::string path;  // empty: there is none
  // An output of a name that nobody has chosen: what was there in a folder of inputs is an earlier
  // one.
  bool is_default = false;
};
// UsageError if writing one of `outputs` would replace one of `inputs`, a file in one that is a
// folder, or another output. Links are followed; devices and pipes are nobody's.
absl::Status CheckApart(std::span<const NamedFile> outputs, std::span<const NamedFile> inputs);

}  // namespace partita
