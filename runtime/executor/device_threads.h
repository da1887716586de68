#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace partita {

// One host thread for each device, kept between steps: to enqueue from where enqueuing for one
// device may wait for its peers.
class DeviceThreads {
 public:
  explicit DeviceThreads(size_t count);
  ~DeviceThreads();

  // Calls run(k) on thread k, for every k; returns when all have returned.
  void Run(const std::function<void(size_t)>& run);

 private:
  void Loop(size_t index);

  std::mutex mutex_;
  std::condition_variable start_, ended_;
  const std::function<void(size_t)>* run_ = nullptr;
  int64_t turn_ = 0;
  size_t busy_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace partita
