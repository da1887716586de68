#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/parallel/device_topology.h"
#include "graph/partition/planned_step.h"
#include "runtime/backend/backend.h"
#include "runtime/backend/backends.h"
#include "runtime/executor/executor.h"

namespace partita {

// Parameters of executors, besides the step that they run.
struct ExecutorSetup {
  // One for each device of the task graph.
  std::vector<PlacedDevice> devices;
  std::string communicator = "inproc";  // a name of Communicators()
  double hang_seconds = 60;
  bool record_timeline = false;
  bool replay = true;                         // see ExecutorOptions
  const std::atomic<bool>* stop = nullptr;    // see ExecutorOptions
  MessagePort* port = nullptr;                // port to the other processes, if there are any
  std::string nccl_library = "libnccl.so.2";  // as CommunicatorSetup has it
};

// Devices of a class run on this backend.
struct BackendOfClass {
  std::string device_class;  // empty: every class that no other choice names
  std::string backend;
};
// The backend of a device: as chosen, else "cuda" for GPUs, and for cores "cpu" if it is built in,
// else "reference".
std::string BackendOf(const Device& device, std::span<const BackendOfClass> choices = {});

// The devices of a topology: their cores and threads; GPUs are numbered within their node. With
// `only`, the others are another process's and have no backend. Errors as MakeBackend.
absl::StatusOr<std::vector<PlacedDevice>> DevicesOf(const DeviceTopology& topology,
                                                    std::span<const BackendOfClass> choices = {},
                                                    std::optional<DeviceId> only = {});
// `count` virtual devices: CPU devices of one thread each that run on any core, or arenas and
// streams of the first GPU. What verification runs on.
std::vector<PlacedDevice> VirtualDevices(std::shared_ptr<const Backend> backend, int count);
// Virtual devices for those of a topology; classes without a choice are of the reference backend.
absl::StatusOr<std::vector<PlacedDevice>> VirtualDevicesOf(const DeviceTopology& topology,
                                                           std::span<const BackendOfClass> choices);
// A usage error unless some device of the topology, this process's or not, computes so.
absl::Status CheckPrecision(Precision precision, const DeviceTopology& topology,
                            std::span<const BackendOfClass> choices);
// Precision in which each device computes: this one, if its backend has it; else, and on devices of
// other processes, float32.
std::vector<Precision> PrecisionsOn(std::span<const PlacedDevice> devices, Precision precision);
// The communicator between devices of one process: nccl between several GPUs where its library is
// found, inproc between cores, else streams.
const char* CommunicatorBetween(std::span<const PlacedDevice> devices);
// Whether nccl can connect processes with these devices: all are GPUs, and its library is found.
bool IsForNccl(const DeviceTopology& topology, std::span<const BackendOfClass> choices);

// An executor of `step`. `graph`, which the step was made from, outlives it. Errors as
// Executor::Create and MakeCommunicator.
absl::StatusOr<std::unique_ptr<Executor>> OpenExecutor(const Graph& graph, PlannedStep step,
                                                       const ExecutorSetup& setup);

// A strategy's task graph in its canonical order: what runs without a plan.
absl::StatusOr<PlannedStep> CanonicalStep(const Graph& graph, const Strategy& strategy,
                                          const PartitionOptions& options);

// The position of a tensor in TaskGraph::outputs(), thus in StepResult::outputs; nullopt if the
// host does not get it.
std::optional<size_t> OutputIndex(const TaskGraph& tasks, TensorId id);

}  // namespace partita
