#include "graph/support/worker_threads.h"

#include <algorithm>
#include <utility>

namespace partita {

WorkerThreads::WorkerThreads(int count, std::string doing)
    : count_(std::max(1, count)), most_(count_), doing_(std::move(doing)) {}

WorkerThreads::~WorkerThreads() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wake_.notify_all();
}

void WorkerThreads::StartThreads() {
  while (static_cast<int>(threads_.size()) + 1 < count_) {
    // What items throw is handed over by Help.
    absl::StatusOr<Thread> thread =
        Thread::Start(doing_, [this] { Loop(); }, [](const absl::Status&) {});
    if (!thread.ok()) {
      count_ = static_cast<int>(threads_.size()) + 1;
      return;
    }
    threads_.push_back(*std::move(thread));
  }
}

void WorkerThreads::ForEach(size_t items, const std::function<void(size_t)>& run) {
  if (items > 1 && most_ > 1) StartThreads();
  std::unique_lock lock(mutex_);
  work_ = {.items = items, .run = &run};
  const auto others = static_cast<int64_t>(items) - 1;
  work_.joinable =
      static_cast<int>(std::max<int64_t>(0, std::min<int64_t>({count_ - 1, most_ - 1, others})));
  if (work_.joinable > 0) wake_.notify_all();
  Help(lock);
  work_.joinable = 0;
  done_.wait(lock, [this] { return work_.busy == 0; });
  if (work_.thrown != nullptr) std::rethrow_exception(std::exchange(work_.thrown, nullptr));
}

void WorkerThreads::Help(std::unique_lock<std::mutex>& lock) {
  while (work_.next < work_.items) {
    const size_t item = work_.next++;
    const std::function<void(size_t)>& run = *work_.run;
    lock.unlock();
    std::exception_ptr thrown;
    try {
      run(item);
    } catch (...) {
      thrown = std::current_exception();
    }
    lock.lock();
    if (thrown == nullptr) continue;
    work_.thrown = thrown;
    work_.next = work_.items;
  }
}

void WorkerThreads::Loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return ends_ || work_.joinable > 0; });
    if (ends_) return;
    --work_.joinable;
    ++work_.busy;
    Help(lock);
    if (--work_.busy == 0) done_.notify_all();
  }
}

}  // namespace partita
