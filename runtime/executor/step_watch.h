#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>

#include "absl/status/status.h"
#include "graph/support/thread.h"

namespace partita {

// Watch that ends steps from another thread: while armed, calls `cancel` when the stop flag is
// true, `check` periodically, and `give_up` when `progress` has not changed for some seconds.
class StepWatch {
 public:
  struct Calls {
    std::function<int64_t()> progress;
    std::function<void()> give_up, cancel, check;
    std::function<void(const absl::Status&)> fail;  // called with the error that ends the watch
                                                    // itself
  };
  // `stop` may be null.
  StepWatch(double seconds, const std::atomic<bool>* stop, Calls calls);
  ~StepWatch();
  // Starts the thread; once, before anything is armed. Unavailable if the system allows no thread.
  absl::Status Start();
  void Arm(bool on);

 private:
  void Loop();
  void End(std::unique_lock<std::mutex>& lock, const std::function<void()>& how);

  const std::chrono::duration<double> limit_, tick_;
  const std::atomic<bool>* const stop_step_;
  const Calls calls_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false, armed_ = false;
  int64_t epoch_ = 0;
  Thread thread_;
};

}  // namespace partita
