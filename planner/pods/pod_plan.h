#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "planner/collective_choice.h"
#include "planner/planner.h"
#include "planner/pods/pod_problem.h"

namespace partita {

// Whether there is memory for a step of so many tasks, which is made, checked and ordered.
bool HasRoomForTasks(int64_t tasks);

// The plan of all pods, of which `of_pod` is one's strategy with its buckets: predicted from the first
// pod in its best order, without an order of all tasks (PlanOutcome::pods), and checked for the pods
// that are built where there is room for their tasks. Once `interrupted`, which may be empty, is true,
// collectives are not named and nothing is checked; the search for orders has a function of its own.
// ResourceExhausted where it does not fit in memory; errors as StrategyOfPods and Evaluator.
absl::StatusOr<PlanOutcome> PlanOfPods(const PodProblem& pods, const BucketedStrategy& of_pod,
                                       const std::function<bool()>& interrupted = nullptr,
                                       const OrderSearch& orders = {});

// The same of such a plan, by the evaluator's prices; the whole machine's has its rule of orders.
// InvalidArgument where it is none: its strategy is not that of alike pods, or its collectives are not
// those that they have by price.
absl::StatusOr<PlanOutcome> EvaluatePlanOfPods(const Evaluator& whole, const GraphAt& graph_at,
                                               const Plan& plan);

}  // namespace partita
