#include "runtime/executor/device_threads.h"

namespace partita {

DeviceThreads::DeviceThreads(size_t count) {
  for (size_t k = 0; k < count; ++k) threads_.emplace_back([this, k] { Loop(k); });
}

DeviceThreads::~DeviceThreads() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  start_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void DeviceThreads::Run(const std::function<void(size_t)>& run) {
  std::unique_lock lock(mutex_);
  run_ = &run;
  busy_ = threads_.size();
  ++turn_;
  start_.notify_all();
  ended_.wait(lock, [this] { return busy_ == 0; });
  run_ = nullptr;
}

void DeviceThreads::Loop(size_t index) {
  std::unique_lock lock(mutex_);
  for (int64_t seen = 0;;) {
    start_.wait(lock, [&] { return stop_ || turn_ != seen; });
    if (stop_) return;
    seen = turn_;
    const auto& run = *run_;
    lock.unlock();
    run(index);
    lock.lock();
    if (--busy_ == 0) ended_.notify_all();
  }
}

}  // namespace partita
