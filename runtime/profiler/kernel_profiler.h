#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/task/kernel_signature.h"
#include "runtime/backend/backend.h"
#include "runtime/profiler/measurement.h"

namespace partita {

// A kernel, and the state of memory in which a step runs it.
struct KernelWork {
  KernelSignature signature;
  // Flags by input: the task before has just written it. The others were last touched long ago, as
  // weights were. Short lists are filled up with false.
  std::vector<bool> fresh;
  // Flags by input: values as after a ReLU, about half of them zero: the outcomes of branches
  // matter.
  std::vector<bool> rectified;
  // Input over which each output is written, or -1. Short lists are filled up with -1.
  std::vector<int> in_place_of;
};

using ProfiledWork = std::variant<KernelWork, MoveSignature>;

// Times kernels and moves on devices that it keeps open, as steps run them:
//  - all devices run the same work at the same time, so shared memory bandwidth shows (those on the
//    host wait for each other before each work); with several devices, the first one uncontended
//    as well;
//  - the works of a batch run in turn, each on operands of its own, so that what one of them finds
//    in caches and branch predictors is what the others and `footprint` bytes left there;
//  - fresh inputs are written by the device right before;
//  - on GPUs they are recorded and replayed, as a step is, and what taking a time adds is left out.
// Not thread safe.
class KernelProfiler {
 public:
  static absl::StatusOr<std::unique_ptr<KernelProfiler>> Open(
      std::span<const PlacedDevice> devices);
  virtual ~KernelProfiler() = default;

  // One measurement for each work, in order. Needs OperandBytes of all works, twice at most, plus
  // the footprint up to 64 MiB on each device, 256 MiB on a GPU.
  virtual absl::StatusOr<std::vector<Measurement>> Measure(std::span<const ProfiledWork> batch,
                                                           const ProfilerOptions& options) = 0;
};

// Memory that the operands of a work take on a device.
int64_t OperandBytes(const ProfiledWork& work);

}  // namespace partita
