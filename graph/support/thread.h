#pragma once

#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace partita {

// A thread of this program. What it throws is caught at its entry and handed to the threads that
// wait for it; a thread that the system refuses is an error.
class Thread {
 public:
  // Calls `run` on a new thread; what that throws, on the same thread, goes to `on_error`, which
  // releases threads that would wait in vain and throws nothing itself. `doing` is what the thread
  // is for ("reading samples"): messages name it. Unavailable if the system allows no further
  // thread.
  static absl::StatusOr<Thread> Start(std::string doing, std::function<void()> run,
                                      std::function<void(const absl::Status&)> on_error);

  // Constructs an object without a thread.
  Thread() = default;
  Thread(Thread&&) = default;
  // Joins the one that was.
  Thread& operator=(Thread&& other) {
    Join();
    thread_ = std::move(other.thread_);
    return *this;
  }
  ~Thread() { Join(); }

  bool joinable() const { return thread_.joinable(); }
  void Join() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  explicit Thread(std::thread thread) : thread_(std::move(thread)) {}
  std::thread thread_;
};

// Whether the system allows so many threads more at present: starts and ends them. The error is
// that of Thread::Start. For libraries that end the program where they are refused one.
absl::Status CheckThreads(int count, const std::string& doing);

}  // namespace partita
