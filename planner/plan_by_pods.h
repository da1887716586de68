#pragma once

#include "absl/status/statusor.h"
#include "planner/planner.h"
#include "planner/pod_planning.h"

namespace partita {

// The plan of all pods that a search for the best pod finds, first for small pods, then for larger
// ones that begin with what was found. The request has graph_at. Where the step has few tasks it is
// a plan as any other; where it has many it has neither order nor algorithms, its step is the first
// pod's, and it is checked for the pods that were built, unless these have many themselves
// (PlanOutcome::pods). Errors as MakePlan; Declined where the batch or the machine has no pods.
absl::StatusOr<PlanOutcome> PlanByPods(const Evaluator& whole, const PlanRequest& request);

}  // namespace partita
