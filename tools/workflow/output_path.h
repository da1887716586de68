#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace partita {

// Whether a file can be written there, found out before the work whose result it is to hold, as
// CheckWritableFile. `flag` ("--save") says where the user can name another place. OK for "".
absl::Status CheckWritable(const std::string& path, absl::string_view flag);

}  // namespace partita
