#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace partita {

// Calls `work` in a process of its own and returns what it returns: an error that leaves a GPU's
// driver in disorder, a crash or a hang ends with that process. Internal says how it ended if not
// well, DeadlineExceeded that it, with the processes that it started, was ended after the limit.
absl::StatusOr<std::string> RunIsolated(const std::function<std::string()>& work,
                                        double limit_seconds);

}  // namespace partita
