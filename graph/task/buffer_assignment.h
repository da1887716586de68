#pragma once

#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "graph/support/strong_int.h"
#include "graph/task/task_graph.h"

namespace partita {

// Sizes that a backend decides. Missing functions: dense buffers, no scratch.
struct MemorySizes {
  std::function<int64_t(const Buffer&)> buffer_bytes;
  std::function<int64_t(const KernelSignature&)> scratch_bytes;
};

// Static memory: where each buffer lies in its device's arena during a step.
struct BufferAssignment {
  static constexpr int64_t kAlignment = 64;

  std::vector<int64_t> offset;  // by BufferId; -1 for buffers that no task touches
  std::vector<int64_t> bytes;   // by BufferId
  // By device: the arena, and within it the part that lives between steps.
  std::vector<Bytes> arena;
  std::vector<Bytes> persistent;
  // By device: the largest scratch of its kernels, allocated beside the arena. Peak = arena +
  // scratch.
  std::vector<Bytes> scratch;
  // Reuse of memory between lanes: (task, earlier task that must have ended). To be added to the
  // tasks' own dependencies; all point backwards in the order.
  std::vector<std::pair<TaskId, TaskId>> added_dependencies;

  Bytes peak(DeviceId device) const { return arena[device.index()] + scratch[device.index()]; }
};

// Assigns every buffer, largest first, to the lowest offset that is free during its life in `order`
// (a topological order of all tasks). Kernels write over an input where they may and the input dies
// there. The same function serves the memory model and the runtime, so predicted and allocated
// bytes are equal.
BufferAssignment AssignBuffers(const TaskGraph& graph, std::span<const TaskId> order,
                               const MemorySizes& sizes);

// 0, 1, 2, ...: the order of TaskGraph::tasks().
std::vector<TaskId> CanonicalOrder(const TaskGraph& graph);

}  // namespace partita
