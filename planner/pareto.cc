#include "planner/pareto.h"

#include <utility>

#include "graph/support/status_macros.h"
#include "graph/support/stop_flag.h"

namespace partita {

absl::StatusOr<std::vector<PlanOutcome>> FindFront(const Evaluator& evaluator,
                                                   const PlanRequest& request, PlanOutcome first) {
  std::vector<PlanOutcome> front;
  front.push_back(std::move(first));
  PlanRequest smaller = request;
  smaller.bound = front[0].bound;
  while (front.size() < kFrontPlans && !IsSet(request.options.stop)) {
    const double taken = static_cast<double>(LargestPeakOf(front.back().step.evaluation).value());
    smaller.memory_limit = Bytes(static_cast<int64_t>(taken * kFrontShrink));
    if (smaller.memory_limit <= Bytes(0)) break;
    auto outcome = MakePlan(evaluator, smaller);
    if (absl::IsResourceExhausted(outcome.status())) break;
    RETURN_IF_ERROR(outcome.status());
    // A search under a tighter limit may find what those before it missed.
    const Nanos time = outcome->step.evaluation.time;
    while (!front.empty() && front.back().step.evaluation.time >= time) front.pop_back();
    front.push_back(*std::move(outcome));
  }
  return front;
}

}  // namespace partita
