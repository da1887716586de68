#pragma once

#include "absl/status/status.h"
#include "graph/graph.h"
#include "graph/parallel/strategy.h"
#include "graph/task/task_graph.h"

namespace partita {

// Whether collectives run as the strategy says: by the algorithm chosen for them, each bucket as
// one task of its tensors, in their order, and no other bucket. Preconditions: CheckTasks has
// passed, the strategy is valid. Internal, naming the tensor.
absl::Status CheckCollectives(const Graph& graph, const Strategy& strategy, const TaskGraph& tasks);

}  // namespace partita
