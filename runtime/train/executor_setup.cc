#include "runtime/train/executor_setup.h"

#include <map>
#include <utility>

#include "graph/support/status_macros.h"
#include "graph/task/buffer_assignment.h"
#include "runtime/comm/communicators.h"

namespace partita {

std::vector<DeviceSpec> DeviceSpecsOf(const DeviceTopology& topology) {
  std::vector<DeviceSpec> specs;
  std::map<std::pair<DeviceKind, int>, int> counts;
  for (const Device& device : topology.devices()) {
    DeviceSpec spec;
    spec.index = counts[{device.kind, device.node}]++;
    spec.cores = device.cores;
    spec.threads = device.threads;
    specs.push_back(std::move(spec));
  }
  return specs;
}

std::vector<DeviceSpec> VirtualDeviceSpecs(int count) {
  return std::vector<DeviceSpec>(static_cast<size_t>(count));
}

// Host calls of one GPU's streams must not wait for each other.
const char* CommunicatorWithin(const std::string& backend) {
  return backend == "cuda" ? "streams" : "inproc";
}

absl::StatusOr<std::unique_ptr<Executor>> OpenExecutor(const Graph& graph, PlannedStep step,
                                                       const ExecutorSetup& setup) {
  ASSIGN_OR_RETURN(auto communicator,
                   MakeCommunicator(setup.communicator, {.devices = step.tasks.devices(),
                                                         .port = setup.port,
                                                         .nccl_library = setup.nccl_library}));
  return Executor::Create(std::move(step.tasks), std::move(step.order), graph, *setup.backend,
                          std::move(communicator),
                          {.devices = setup.devices,
                           .hang_seconds = setup.hang_seconds,
                           .record_timeline = setup.record_timeline,
                           .stop = setup.stop,
                           .port = setup.port});
}

absl::StatusOr<PlannedStep> CanonicalStep(const Graph& graph, const Strategy& strategy,
                                          const PartitionOptions& options) {
  ASSIGN_OR_RETURN(TaskGraph tasks, Partition(graph, strategy, options));
  std::vector<TaskId> order = CanonicalOrder(tasks);
  return PlannedStep{std::move(tasks), std::move(order)};
}

std::optional<size_t> OutputIndex(const TaskGraph& tasks, TensorId id) {
  for (size_t k = 0; k < tasks.outputs().size(); ++k) {
    if (tasks.outputs()[k].tensor == id) return k;
  }
  return std::nullopt;
}

}  // namespace partita
