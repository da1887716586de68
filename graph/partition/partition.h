#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/parallel/strategy.h"
#include "graph/precision.h"
#include "graph/task/task_graph.h"

namespace partita {

// A collective that needs an algorithm: the same one for all `groups`, which each do it for
// themselves; more than one where they form the same sums.
struct CollectiveToRun {
  const Collective& collective;
  DType dtype = DType::kFloat32;
  std::span<const std::vector<DeviceId>> groups;
};
// Chooses rows of CollectiveAlgorithms(). Pure: equal collectives get equal answers.
using AlgorithmRule = std::function<std::string(const CollectiveToRun&)>;
// The named one wherever it does the collective.
AlgorithmRule AlwaysBy(std::string algorithm);

// Choices about a task graph besides the strategy. Stored in plans, but for the rule, whose answers
// a planner stores in the strategy, and what ends the work.
struct PartitionOptions {
  int devices = 1;
  // The node of each device; empty: all on one.
  std::vector<int32_t> node_of_device;
  // Devices of one number share a native format, those of kDenseOnly have none; empty: all share
  // one.
  std::vector<int32_t> class_of_device;
  static constexpr int32_t kDenseOnly = -1;
  // Precision in which each device computes products; empty: float32.
  std::vector<Precision> precision_of_device;
  // Whether bits of products on each device may differ from run to run (see
  // KernelSignature::deterministic); empty: none may. Parts that several devices compute alike stay
  // deterministic, so that copies of a tensor are equal bit for bit.
  std::vector<bool> nondeterministic_of_device;
  // Element type in which each operator reads and writes tensors of floating-point numbers, indexed
  // by OpId; updates take the tensors' own. Empty: the tensors' own. Where it is another than the
  // tensor's, which is the type in which it travels and persists, it is converted (kReorder).
  std::vector<DType> element_types;
  // Recognise collectives; otherwise everything goes point to point.
  bool collectives = true;
  // Broadcasts that move at most so many bytes in all go point to point.
  int64_t direct_bytes = 0;
  // Rule for collectives for which the strategy has no choice; null, or an answer that does not do
  // the collective: by size (DefaultAlgorithm).
  AlgorithmRule algorithm = nullptr;
  // Tensors to bring to the host besides the loss and metrics (tests, dumps). Of a weight or state
  // that is the value before the step's update; its next value is a tensor of its own.
  std::vector<TensorId> extra_outputs;
  // Kernels take a following ReLU into their store where no other operator reads the value before
  // it.
  bool fuse = true;
  // Buffers keep the backend's native format where all their users can (see formats.h); for
  // backends that have one.
  bool native_formats = false;
  // Devices of each of several alike pods, where fragments of the first are wanted alone: tasks in which
  // it takes part, over buffers of its devices. 0, as for Partition: of all devices.
  int pod_devices = 0;
  // Ends Partition once it is set; may be null.
  const std::atomic<bool>* stop = nullptr;
};

// ResourceExhausted where this host has no room for the tasks of the strategy's step, as on machines
// of thousands of devices: by the least that the parts of its operators take.
absl::Status CheckRoom(const Graph& graph, const Strategy& strategy);

// The task graph of one training step: pure, and the same for planner and runtime. The strategy is
// checked: InvalidArgument says which operator, weight, collective or bucket does not fit and why.
// ResourceExhausted as CheckRoom, and where the tasks made so far leave no room for the graph of them.
// Cancelled once PartitionOptions::stop is set.
absl::StatusOr<TaskGraph> Partition(const Graph& graph, const Strategy& strategy,
                                    const PartitionOptions& options);

}  // namespace partita
