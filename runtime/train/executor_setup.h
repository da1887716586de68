#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/parallel/device_topology.h"
#include "graph/task/planned_step.h"
#include "runtime/backend/backend.h"
#include "runtime/executor/executor.h"

namespace partita {

// What executors are made with, besides the step that they run.
struct ExecutorSetup {
  const Backend* backend = nullptr;     // outlives the executors
  std::string communicator = "inproc";  // a name of Communicators()
  std::vector<DeviceSpec> devices;      // one for each device of the task graph
  double hang_seconds = 60;
  bool record_timeline = false;
  const std::atomic<bool>* stop = nullptr;    // as ExecutorOptions has it
  MessagePort* port = nullptr;                // to the other processes, where there are any
  std::string nccl_library = "libnccl.so.2";  // as CommunicatorSetup has it
};

// The devices of a topology: their cores and threads; GPUs are numbered within their node.
std::vector<DeviceSpec> DeviceSpecsOf(const DeviceTopology& topology);
// `count` virtual devices: CPU devices of one thread each that run on any core, or arenas and
// streams of the first GPU. What verification runs on.
std::vector<DeviceSpec> VirtualDeviceSpecs(int count);
// The communicator between virtual devices of a backend in one process.
const char* CommunicatorWithin(const std::string& backend);

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
