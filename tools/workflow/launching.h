#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace partita {

struct LaunchRequest {
  int ranks = 0;  // processes; on this host, unless there is a host file
  std::string
      hosts;  // a file: one host on a line, with slots=N behind it if it takes several ranks
  std::vector<std::string> arguments;       // of this program, in every rank: "run", ...
  const std::atomic<bool>* stop = nullptr;  // when it becomes true, ranks are asked to end
};

// The command that starts them: mpirun with what a machine of any number of cores needs. `program`
// is this program's path.
std::vector<std::string> LaunchCommand(const LaunchRequest& request, const std::string& program,
                                       bool is_root);

// Starts the ranks and waits until all have ended; none of this host's is left then, whatever has
// happened. Returns the exit code of the first that failed, or 0. Unavailable where there is no
// mpirun.
absl::StatusOr<int> Launch(const LaunchRequest& request);

}  // namespace partita
