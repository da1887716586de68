#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace partita {

// Runs a command of words without quotes in them; calls `line` with each line that it prints;
// messages go where the suite's go. The exit status, -1 behind a signal.
absl::StatusOr<int> Execute(const std::vector<std::string>& words,
                            const std::function<void(const std::string&)>& line);

}  // namespace partita
