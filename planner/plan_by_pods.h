#pragma once

#include "absl/status/statusor.h"
#include "planner/planner.h"
#include "planner/pod_planning.h"

namespace partita {

// The plan of all pods that a search for the best pod finds, first for small pods, then for larger
// ones that begin with what was found. The request has graph_at. Of few tasks it is a plan as any other; of many it has neither order nor algorithms, its
// step is the first pod's, and it is checked for the pods that were built, where these are not many
// themselves (PlanOutcome::pods). Errors as MakePlan; Declined where the batch or the machine has no
// pods.
absl::StatusOr<PlanOutcome> PlanByPods(const Evaluator& whole, const PlanRequest& request);

}  // namespace partita
