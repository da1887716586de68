#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/task/kernel_signature.h"
#include "runtime/backend/backend.h"

namespace partita {

struct ProfilerOptions {
  int samples = 9;  // per device, after one launch that is not counted
  // Slow kernels vary less: after so many seconds `least_samples` are enough.
  double seconds = 0.25;
  int least_samples = 3;
};

// What one kernel or move takes: nanoseconds of each counted launch on each device, in the order of
// launches.
struct Measurement {
  std::vector<int64_t> samples_ns;
  int64_t scratch_bytes = 0;
};

// Times kernels on devices that it keeps open. All devices run the same work at the same time, as
// in training, so shared memory bandwidth shows in the figures. Not thread safe.
class KernelProfiler {
 public:
  static absl::StatusOr<std::unique_ptr<KernelProfiler>> Open(
      const Backend& backend, const std::vector<DeviceSpec>& devices);
  virtual ~KernelProfiler() = default;

  virtual absl::StatusOr<Measurement> Measure(const KernelSignature& signature,
                                              const ProfilerOptions& options) = 0;
  virtual absl::StatusOr<Measurement> Measure(const MoveSignature& signature,
                                              const ProfilerOptions& options) = 0;
};

}  // namespace partita
