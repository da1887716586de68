#pragma once

#include <string>

#include "absl/status/status.h"

namespace partita {

// Whether a file can be written there, found out before the work whose result it is to hold:
// NotFound if its folder is absent, PermissionDenied if nothing may be written there,
// InvalidArgument if the path is a folder. Each names the path. OK for "".
absl::Status CheckWritable(const std::string& path);

}  // namespace partita
