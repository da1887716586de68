#include "runtime/executor/device_threads.h"

#include "graph/support/check.h"
#include "graph/support/status_macros.h"

namespace partita {

absl::StatusOr<std::unique_ptr<DeviceThreads>> DeviceThreads::Start(size_t count) {
  std::unique_ptr<DeviceThreads> threads(new DeviceThreads);
  threads->threads_.reserve(count);
  for (size_t k = 0; k < count; ++k) {
    ASSIGN_OR_RETURN(Thread thread,
                     Thread::Start(
                         "giving work to a device", [own = threads.get(), k] { own->Loop(k); },
                         [](const absl::Status& status) { CHECK(false) << status; }));
    threads->threads_.push_back(std::move(thread));
  }
  return threads;
}

DeviceThreads::~DeviceThreads() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  start_.notify_all();
  for (Thread& thread : threads_) thread.Join();
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
