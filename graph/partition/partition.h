#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/parallel/strategy.h"
#include "graph/task/task_graph.h"

namespace partita {

// Choices about a task graph besides the strategy. Stored in plans.
struct PartitionOptions {
  int devices = 1;
  // The node of each device; empty: all on one.
  std::vector<int32_t> node_of_device;
  // Devices of one number share a native format, those of kDenseOnly have none; empty: all share
  // one.
  std::vector<int32_t> class_of_device;
  static constexpr int32_t kDenseOnly = -1;
  // Recognise collectives; otherwise everything goes point to point.
  bool collectives = true;
  // Algorithm for every collective of a kind that supports it, or empty: by size
  // (DefaultAlgorithm).
  std::string algorithm;
  // Tensors to bring to the host besides the loss and metrics (tests, dumps). Of a weight or state
  // that is the value before the step's update; its next value is a tensor of its own.
  std::vector<TensorId> extra_outputs;
  // Kernels take a following ReLU into their store where no other operator reads the value before
  // it.
  bool fuse = true;
  // Buffers keep the backend's native format where all their users can (see formats.h); for
  // backends that have one.
  bool native_formats = false;
};

// The task graph of one training step: pure, and the same for planner and runtime. The strategy is
// checked: InvalidArgument says which operator or weight does not fit and why.
absl::StatusOr<TaskGraph> Partition(const Graph& graph, const Strategy& strategy,
                                    const PartitionOptions& options);

}  // namespace partita
