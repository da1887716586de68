#pragma once

#include "absl/status/statusor.h"
#include "planner/planner.h"
#include "planner/pods/pod_problem.h"

namespace partita {

// The plan of all pods that a search for the best pod finds, first for small pods, then for larger
// ones that begin with what was found. The request has graph_at. Where there is room and time for all
// tasks it is a plan as any other; otherwise as PlanOfPods makes it. Errors as MakePlan; Declined where
// the batch or the machine has no pods.
absl::StatusOr<PlanOutcome> PlanByPods(const Evaluator& whole, const PlanRequest& request);

}  // namespace partita
