#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "runtime/backend/backend.h"
#include "runtime/executor/device_threads.h"

namespace partita {

// Recordings of devices that only a library connects, each of one device's streams, as one. Each is
// run by its device's thread: a launch may wait for those of the peers.
class DeviceRecordings : public StreamRecording {
 public:
  // `threads`: as many as recordings; outlives this. Null: there is one recording, which the
  // caller's thread runs.
  DeviceRecordings(std::vector<std::unique_ptr<StreamRecording>> devices, DeviceThreads* threads)
      : devices_(std::move(devices)), threads_(threads) {}

  absl::Status Begin() override;
  absl::Status End() override;
  absl::Status Run(const StepArguments& arguments) override;

 private:
  const std::vector<std::unique_ptr<StreamRecording>> devices_;
  DeviceThreads* const threads_;
};

}  // namespace partita
