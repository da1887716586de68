#pragma once

#include "absl/status/status.h"
#include "graph/graph.h"
#include "graph/parallel/strategy.h"
#include "graph/task/task_graph.h"

namespace partita {

// Whether the control edges of the tasks (Task::after) are those that the graph and the strategy
// ask for, each once: a part waits on its device for the parts of the operators that its own is
// after; an exchange task for those that all tasks it serves are after, the opener of a weight's
// gather among them. What is summed is summed once, for all readers of the tensor. Preconditions:
// CheckTasks has passed, the strategy is valid. Internal, naming task, operator or tensor.
absl::Status CheckControlEdges(const Graph& graph, const Strategy& strategy,
                               const TaskGraph& tasks);

}  // namespace partita
