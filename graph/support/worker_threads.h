#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "graph/support/thread.h"

namespace partita {

// Threads that work on the items of one list at a time, beside the one that asks for it. They start
// with the first list that they are of use for.
class WorkerThreads {
 public:
  // `count` threads, with the one that asks; fewer where the system allows no more. `doing` as in
  // Thread::Start.
  WorkerThreads(int count, std::string doing);
  ~WorkerThreads();

  int count() const { return count_; }
  // The most threads that work at a time from now on, at least 1.
  void SetMost(int most) { most_ = most; }
  // Threads that work at a time.
  int most() const { return std::max(1, std::min(count_, most_)); }

  // Calls run(k) once for each k below `items`, in any order, and returns when all calls have.
  // Throws again what one of them threw, after the others; items that no thread has begun by then
  // are left out.
  void ForEach(size_t items, const std::function<void(size_t)>& run);

 private:
  // A list of items; its fields are guarded by mutex_.
  struct Work {
    size_t items = 0;
    size_t next = 0;   // the first item that no thread has begun
    int joinable = 0;  // threads that may still begin with it
    int busy = 0;      // threads, besides the one that asks, that are at it
    const std::function<void(size_t)>* run = nullptr;
    std::exception_ptr thrown;
  };

  void StartThreads();
  void Loop();
  // Takes items until none is left.
  void Help(std::unique_lock<std::mutex>& lock);

  int count_;
  int most_;
  const std::string doing_;
  std::mutex mutex_;
  std::condition_variable wake_;  // there is work, or the end
  std::condition_variable done_;  // no thread is busy
  Work work_;
  bool ends_ = false;
  std::vector<Thread> threads_;  // last: joined before what they use goes
};

}  // namespace partita
