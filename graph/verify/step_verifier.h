#pragma once

#include <span>

#include "absl/status/status.h"
#include "graph/graph.h"
#include "graph/parallel/strategy.h"
#include "graph/task/buffer_assignment.h"
#include "graph/task/task_graph.h"

namespace partita {

// A step as it is going to run.
struct StepToVerify {
  const Graph& graph;
  const Strategy& strategy;
  const TaskGraph& tasks;
  std::span<const TaskId> order;
  const BufferAssignment* memory = nullptr;  // checked too if given
};

// Proves, independently of how it was made, that a step does what its graph says, and that it ends:
//   - every task is well formed: buffers on its device, windows and slices inside them, groups
//     without repeats, collectives valid and done by an algorithm that can;
//   - every operator's blocks tile its loops, every block has one task on each device that the
//     strategy names, and these tasks read and write the boxes that the operator's rule says;
//   - collectives run by the algorithms and in the buckets that the strategy chose;
//   - control edges are those of the graph and of the weights' gathers, each once;
//   - both layouts of every weight cover it, and are the strategy's where it names them;
//   - run symbolically in order, every input of every kernel holds at each element the sum of
//     all terms, each once; so do the values for the host, and at the end what is kept for the
//     next step;
//   - the order is topological, the lanes run to completion, and tasks that touch the same buffer
//     (one of them writing) wait for each other, whatever the lanes' speeds;
//   - where memory is given: no two buffers that hold something at the same time overlap, and
//     a task that writes to memory waits for those that used it before.
// Shares no code with Partition and Exchange but the operators' rules (ViewPart). InvalidArgument
// if the strategy or the order is at fault, Internal if the task graph or the assignment is; the
// message names task, operator, tensor or weight.
absl::Status VerifyStep(const StepToVerify& step);

}  // namespace partita
