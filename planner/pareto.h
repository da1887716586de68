#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "planner/evaluator.h"
#include "planner/planner.h"

namespace partita {

// Plans of which none is both as fast and as small as another, by step time, fastest first: `first`,
// and what searches find that may take less and less memory of a device (kFrontShrink of what the
// plan before took), until nothing fits, or kFrontPlans. Each search is that of the request. Ends
// early with what it has once the request's stop flag is set. Errors: MakePlan's.
absl::StatusOr<std::vector<PlanOutcome>> FindFront(const Evaluator& evaluator,
                                                   const PlanRequest& request, PlanOutcome first);
inline constexpr double kFrontShrink = 0.8;
inline constexpr size_t kFrontPlans = 8;

}  // namespace partita
