#include "runtime/executor/executor_setup.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/support/status_macros.h"
#include "graph/task/buffer_assignment.h"
#include "graph/task/task_order.h"
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

namespace {

absl::StatusOr<std::shared_ptr<const Backend>> BackendFor(const Device& device,
                                                          const std::string& name) {
  auto backend = MakeBackend(name);
  if (backend.ok() || device.kind != DeviceKind::kGpu || !absl::IsUnavailable(backend.status())) {
    return backend;
  }
  return absl::UnavailableError(absl::StrCat(
      "device '", device.name, "' wants backend ", name, ", which does not run here: ",
      backend.status().message(), ". Try --backend cpu to run it on this machine's cores"));
}

}  // namespace

absl::StatusOr<std::vector<PlacedDevice>> DevicesOf(const DeviceTopology& topology,
                                                    std::span<const BackendOfClass> choices,
                                                    std::optional<DeviceId> only) {
  std::vector<PlacedDevice> devices;
  std::map<std::string, std::shared_ptr<const Backend>> backends;
  std::map<std::pair<DeviceKind, int>, int> counts;
  for (int d = 0; d < topology.size(); ++d) {
    const Device& device = topology.device(DeviceId(d));
    std::shared_ptr<const Backend> backend;
    if (only.value_or(DeviceId(d)) == DeviceId(d)) {
      const std::string name = BackendOf(device, choices);
      std::shared_ptr<const Backend>& made = backends[name];
      if (made == nullptr) {
        ASSIGN_OR_RETURN(made, BackendFor(device, name));
      }
      backend = made;
    }
    devices.push_back({std::move(backend),
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

absl::Status CheckPrecision(Precision precision, const DeviceTopology& topology,
                            std::span<const BackendOfClass> choices) {
  std::set<std::string> backends;
  for (const Device& device : topology.devices()) backends.insert(BackendOf(device, choices));
  const auto has = [&](const std::string& name) { return HasPrecision(name, precision); };
  if (std::any_of(backends.begin(), backends.end(), has)) return absl::OkStatus();
  return CheckFloat32(precision, absl::StrJoin(backends, " or ").c_str());
}

std::vector<Precision> PrecisionsOn(std::span<const PlacedDevice> devices, Precision precision) {
  std::vector<Precision> precisions;
  for (const PlacedDevice& device : devices) {
    const bool has = device.backend != nullptr && HasPrecision(device.backend->name(), precision);
    precisions.push_back(has ? precision : Precision::kFloat32);
  }
  return precisions;
}

namespace {

bool HasNccl() { return MakeCommunicator("nccl", {.devices = 1}).ok(); }

}  // namespace

const char* CommunicatorBetween(std::span<const PlacedDevice> devices) {
  std::set<int> gpus;
  bool on_host = true;
  for (const PlacedDevice& device : devices) {
    if (device.backend->name() == "cuda") gpus.insert(device.spec.index);
    on_host = on_host && device.backend->RunsOnHost();
  }
  if (devices.size() > 1 && gpus.size() == devices.size() && HasNccl()) return "nccl";
  // Host calls of GPUs' streams must not wait for each other, as inproc's do.
  return on_host ? "inproc" : "streams";
}

bool IsForNccl(const DeviceTopology& topology, std::span<const BackendOfClass> choices) {
  return HasNccl() &&
         std::all_of(topology.devices().begin(), topology.devices().end(),
                     [&](const Device& device) { return BackendOf(device, choices) == "cuda"; });
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
                           .replay = setup.replay,
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
