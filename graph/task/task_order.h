#pragma once

#include <vector>

#include "absl/status/status.h"
#include "graph/task/task_graph.h"

namespace partita {

// Total orders of a task graph's tasks, in which its lanes run.

// 0, 1, 2, ...: the order of TaskGraph::tasks().
std::vector<TaskId> CanonicalOrder(const TaskGraph& graph);

// Whether `order` has every task once, and none before one that it depends on. InvalidArgument
// names the task at fault by its position.
absl::Status CheckOrder(const TaskGraph& tasks, const std::vector<TaskId>& order);

}  // namespace partita
