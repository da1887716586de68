#pragma once

#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/task/task_graph.h"
#include "runtime/backend/backend.h"
#include "runtime/comm/communicator.h"
#include "runtime/profiler/measurement.h"

namespace partita {

// Times communication between the devices of this node as steps run it: on communication streams,
// after events of the compute streams that write what is sent, through the communicator that runs
// steps. Not thread safe.
class LinkProfiler {
 public:
  static absl::StatusOr<std::unique_ptr<LinkProfiler>> Open(
      std::span<const PlacedDevice> devices, std::unique_ptr<Communicator> communicator);
  virtual ~LinkProfiler() = default;

  // A CollectiveTask or TransferTask; its buffers are not looked at, only their counts.
  //  uncontended_ns: compute streams wait for it: from the last of them that is ready until the last that
  //    goes on, waking of threads included.
  //  samples_ns: compute streams have other work: by how much that ends later. The same as uncontended_ns
  //    where that is above 5 ms, and where a device is a GPU.
  virtual absl::StatusOr<Measurement> Measure(const TaskBody& body,
                                              const ProfilerOptions& options) = 0;

  // A step of `tasks` empty tasks on every compute stream (on a GPU: of one element each, recorded and
  // replayed as steps are), from the first that is enqueued until the host knows that all have ended
  // (samples_ns).
  virtual absl::StatusOr<Measurement> MeasureStep(int tasks, const ProfilerOptions& options) = 0;
};

}  // namespace partita
