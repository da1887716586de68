#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <utility>

#include "absl/status/status.h"

namespace partita {

// The first error of a device's work, shared by its streams. Thread safe, but for set_report, which
// comes before any work.
class FirstError {
 public:
  void set_report(std::function<void(const absl::Status&)> report) { report_ = std::move(report); }

  // Keeps the error unless there is one, then calls `then` and the reporter.
  template <class Then>
  void Set(const absl::Status& status, Then&& then) {
    {
      const std::lock_guard lock(mutex_);
      if (is_set()) return;
      status_ = status;
      set_.store(true, std::memory_order_release);
    }
    then();
    if (report_) report_(status);
  }
  void Set(const absl::Status& status) {
    Set(status, [] {});
  }

  bool is_set() const { return set_.load(std::memory_order_acquire); }
  // OK if there is none.
  absl::Status status() const {
    const std::lock_guard lock(mutex_);
    return status_;
  }

 private:
  mutable std::mutex mutex_;
  std::atomic<bool> set_{false};
  absl::Status status_;
  std::function<void(const absl::Status&)> report_;
};

}  // namespace partita
