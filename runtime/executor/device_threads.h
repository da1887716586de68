#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/support/thread.h"

namespace partita {

// One host thread for each device, kept between steps: to enqueue from where enqueuing for one
// device may wait for its peers.
class DeviceThreads {
 public:
  // Unavailable where the system allows not so many.
  static absl::StatusOr<std::unique_ptr<DeviceThreads>> Start(size_t count);
  ~DeviceThreads();

  // Calls run(k), which throws nothing, on thread k, for every k; returns when all have returned.
  void Run(const std::function<void(size_t)>& run);

 private:
  DeviceThreads() = default;
  void Loop(size_t index);

  std::mutex mutex_;
  std::condition_variable start_, ended_;
  const std::function<void(size_t)>* run_ = nullptr;
  int64_t turn_ = 0;
  size_t busy_ = 0;
  bool stop_ = false;
  std::vector<Thread> threads_;
};

}  // namespace partita
