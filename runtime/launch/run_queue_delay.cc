#include "runtime/launch/run_queue_delay.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace partita {

int64_t RunQueueDelay::Total() {
  int64_t longest = 0;
  std::map<std::string, int64_t> waited;
  std::error_code error;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::ifstream file(thread.path() / "schedstat");
    int64_t ran = 0, waits = 0;  // nanoseconds on a core, and runnable without one
    if (!(file >> ran >> waits)) continue;
    const std::string name = thread.path().filename().string();
    const auto before = waited_.find(name);
    if (before != waited_.end()) longest = std::max(longest, waits - before->second);
    waited[name] = waits;
  }
  waited_ = std::move(waited);
  return total_ += longest;
}

}  // namespace partita
