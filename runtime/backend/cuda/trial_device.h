#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace partita {

// Memory and a clock of a device, to measure algorithms with.
class TrialDevice {
 public:
  virtual ~TrialDevice() = default;
  // Memory zeroed except for its first float, at a multiple of 256 bytes; null if too little is
  // free.
  virtual std::shared_ptr<void> Take(int64_t bytes, float first) = 0;
  // Sets every byte, behind what is enqueued; copies to the host, for which it waits.
  virtual absl::Status Fill(void* data, unsigned char byte, int64_t bytes) = 0;
  virtual absl::Status Read(const void* data, int64_t bytes, void* to) = 0;
  // Bytes that are free; 0 where that cannot be told.
  virtual int64_t FreeBytes() const = 0;
  // Time of the work on the device, for which it waits: the median of some runs after a first one
  // that is not counted; or the first error of enqueuing it.
  virtual absl::StatusOr<double> Milliseconds(
      const std::function<absl::Status(cudaStream_t)>& enqueue) = 0;
};

// A piece of work on memory that it can be tried with.
template <class Work>
struct Trial {
  Work work;
  std::shared_ptr<void> workspace;
  std::vector<std::shared_ptr<void>> memory;
};

// The GPU that is the calling thread's current one at each call.
std::unique_ptr<TrialDevice> MakeCudaTrialDevice();

}  // namespace partita
