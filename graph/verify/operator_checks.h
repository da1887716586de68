#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/parallel/strategy.h"
#include "graph/task/task_graph.h"
#include "graph/verify/symbolic_step.h"

namespace partita {

// Facts about operators that VerifyStep (see step_verifier.h) finds before the symbolic run.
struct CheckedOperators {
  ExpectedValues expected;
  std::vector<ComputeTerm> terms;  // indexed by task; empty for those that are no compute tasks
};

// Every block of every operator has its tasks, with the boxes of the operator's rule; the layouts
// of every weight cover it and are those of the strategy. Preconditions: the strategy is valid for
// the graph, CheckTasks has passed. Internal, naming operator or weight.
absl::StatusOr<CheckedOperators> CheckOperators(const Graph& graph, const Strategy& strategy,
                                                const TaskGraph& tasks);

}  // namespace partita
