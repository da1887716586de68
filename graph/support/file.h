#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace partita {

// The whole file. NotFound if it is absent, PermissionDenied if unreadable, InvalidArgument if it
// is no regular file or larger than `max_bytes`; each message names the path.
absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes);

// Status for errno after an action ("open") on a file: NotFound, PermissionDenied, Unavailable
// where the device fails or is full or a limit is reached, ResourceExhausted where memory is
// refused, otherwise InvalidArgument. The message names the path, or what is being done (Doing).
absl::Status FileError(absl::string_view action, const std::string& path);

// The whole content, by a FileWriter (see there): a reader sees the old content or the new, never
// a part; links, pipes and devices are written to, not replaced.
absl::Status WriteFileAtomically(const std::string& path, const std::string& content);

// The same for content in pieces, written one after the other, without joining them in memory.
absl::Status WriteFileAtomically(const std::string& path,
                                 std::span<const absl::string_view> pieces);

}  // namespace partita
