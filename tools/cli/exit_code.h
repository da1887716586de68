#pragma once

#include "absl/status/status.h"

namespace partita {

// The program's documented exit code for an error.
int ExitCodeOf(const absl::Status& status);

}  // namespace partita
