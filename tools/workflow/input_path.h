#pragma once

#include <string>

#include "absl/status/status.h"

namespace partita {

// NotFound where there is no such file or folder: what of its path is not there, and which file was
// probably meant. OK for what is there, and where the system does not say.
absl::Status CheckThere(const std::string& path);

}  // namespace partita
