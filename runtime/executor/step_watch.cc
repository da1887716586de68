#include "runtime/executor/step_watch.h"

#include <algorithm>
#include <utility>

#include "graph/support/status_macros.h"
#include "graph/support/stop_flag.h"

namespace partita {
namespace {

void Unlocked(std::unique_lock<std::mutex>& lock, const std::function<void()>& call) {
  lock.unlock();
  call();
  lock.lock();
}

}  // namespace

StepWatch::StepWatch(double seconds, const std::atomic<bool>* stop, Calls calls)
    : limit_(std::chrono::duration<double>(seconds)),
      tick_(std::clamp(seconds / 10, 1e-3, 0.1)),
      stop_step_(stop),
      calls_(std::move(calls)) {}

StepWatch::~StepWatch() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.Join();
}

absl::Status StepWatch::Start() {
  ASSIGN_OR_RETURN(thread_, Thread::Start("watching steps", [this] { Loop(); }, calls_.fail));
  return absl::OkStatus();
}

void StepWatch::Arm(bool on) {
  std::lock_guard lock(mutex_);
  armed_ = on;
  ++epoch_;
}

void StepWatch::Loop() {
  std::unique_lock lock(mutex_);
  int64_t seen = -1, seen_epoch = -1;
  auto since = std::chrono::steady_clock::now();
  while (!stop_) {
    wake_.wait_for(lock, tick_);
    if (!armed_ || stop_) continue;
    if (IsSet(stop_step_)) {
      End(lock, calls_.cancel);
      continue;
    }
    Unlocked(lock, calls_.check);
    const int64_t now = calls_.progress();
    if (now != seen || seen_epoch != epoch_) {
      seen = now;
      seen_epoch = epoch_;
      since = std::chrono::steady_clock::now();
    } else if (std::chrono::steady_clock::now() - since > limit_) {
      End(lock, calls_.give_up);
    }
  }
}

void StepWatch::End(std::unique_lock<std::mutex>& lock, const std::function<void()>& how) {
  armed_ = false;
  Unlocked(lock, how);
}

}  // namespace partita
