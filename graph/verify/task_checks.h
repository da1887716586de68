#pragma once

#include <span>

#include "absl/status/status.h"
#include "graph/graph.h"
#include "graph/task/buffer_assignment.h"
#include "graph/task/happens_before.h"
#include "graph/task/task_graph.h"

namespace partita {

// The parts of VerifyStep (see step_verifier.h) that look at tasks and buffers, not at operators.
// All return Internal, naming the task or buffer at fault.

// Every task is well formed by itself.
absl::Status CheckTasks(const Graph& graph, const TaskGraph& tasks);

// Tasks that touch one buffer, one of them writing, happen one before the other.
absl::Status CheckAccesses(const TaskGraph& tasks, std::span<const TaskId> order,
                           const HappensBefore& before);

// Buffers that hold something at the same time do not overlap in memory, and memory is used again
// only by a task that waits for its last users. Kernels may write over an input that dies in them
// where their operator allows.
absl::Status CheckMemory(const TaskGraph& tasks, std::span<const TaskId> order,
                         const BufferAssignment& memory, const HappensBefore& before);

}  // namespace partita
