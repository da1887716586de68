#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"

namespace partita {

// Words of a process about its work, and how it ended.
struct IsolatedRun {
  // Internal: how it ended if not well. DeadlineExceeded: it, with the processes that it started,
  // was ended after the limit.
  absl::Status status;
  std::string last;  // what it said last; empty if nothing
};

// Calls `work` in a process of its own: an error that leaves a GPU's driver in disorder, a crash or
// a hang ends with that process. `say` takes one line at a time, each in the place of the one
// before: what is known so far, and in the end the result.
IsolatedRun RunIsolated(
    const std::function<void(const std::function<void(const std::string&)>& say)>& work,
    double limit_seconds);

}  // namespace partita
