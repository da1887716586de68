#include "runtime/train/executor_setup.h"

#include <map>
#include <utility>

#include "graph/support/status_macros.h"
#include "graph/task/buffer_assignment.h"
#include "runtime/comm/communicators.h"

namespace partita {

std::string BackendOf(const Device& device, std::span<const BackendOfClass> choices) {
  std::string rest;
  for (const BackendOfClass& choice : choices) {
    if (choice.device_class == device.device_class) return choice.backend;
    if (choice.device_class.empty()) rest = choice.backend;
  }
  if (!rest.empty()) return rest;
  if (device.kind == DeviceKind::kGpu) return "cuda";
  return MakeBackend("cpu").ok() ? "cpu" : "reference";
}

absl::StatusOr<std::vector<PlacedDevice>> DevicesOf(const DeviceTopology& topology,
                                                    std::span<const BackendOfClass> choices) {
  std::vector<PlacedDevice> devices;
  std::map<std::string, std::shared_ptr<const Backend>> backends;
  std::map<std::pair<DeviceKind, int>, int> counts;
  for (const Device& device : topology.devices()) {
    std::shared_ptr<const Backend>& backend = backends[BackendOf(device, choices)];
    if (backend == nullptr) {
      ASSIGN_OR_RETURN(backend, MakeBackend(BackendOf(device, choices)));
    }
    devices.push_back({backend,
                       {.index = counts[{device.kind, device.node}]++,
                        .cores = device.cores,
                        .threads = device.threads}});
  }
  return devices;
}

std::vector<PlacedDevice> VirtualDevices(std::shared_ptr<const Backend> backend, int count) {
  return std::vector<PlacedDevice>(static_cast<size_t>(count), {std::move(backend), {}});
}

absl::StatusOr<std::vector<PlacedDevice>> VirtualDevicesOf(
    const DeviceTopology& topology, std::span<const BackendOfClass> choices) {
  std::vector<BackendOfClass> all = {{"", "reference"}};
  all.insert(all.end(), choices.begin(), choices.end());
  ASSIGN_OR_RETURN(std::vector<PlacedDevice> devices, DevicesOf(topology, all));
  for (PlacedDevice& device : devices) device.spec = {};
  return devices;
}

// Host calls of GPUs' streams must not wait for each other.
const char* CommunicatorBetween(std::span<const PlacedDevice> devices) {
  for (const PlacedDevice& device : devices) {
    if (!device.backend->RunsOnHost()) return "streams";
  }
  return "inproc";
}

absl::StatusOr<std::unique_ptr<Executor>> OpenExecutor(const Graph& graph, PlannedStep step,
                                                       const ExecutorSetup& setup) {
  ASSIGN_OR_RETURN(auto communicator,
                   MakeCommunicator(setup.communicator, {.devices = step.tasks.devices(),
                                                         .port = setup.port,
                                                         .nccl_library = setup.nccl_library}));
  return Executor::Create(std::move(step.tasks), std::move(step.order), graph,
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
