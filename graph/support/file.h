#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace partita {

// The whole file. NotFound if it is absent, PermissionDenied if unreadable, InvalidArgument if it
// is a folder or larger than `max_bytes`; each message names the path.
absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes);

// Writes beside the target, syncs and renames, so a reader sees the old content or the new, never a
// part.
absl::Status WriteFileAtomically(const std::string& path, const std::string& content);

}  // namespace partita
