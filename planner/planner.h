#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "graph/parallel/plan.h"
#include "planner/evaluator.h"
#include "planner/search/search_algorithm.h"

namespace partita {

struct PlanRequest {
  std::string search = "mcmc";
  SearchOptions options;
  std::string strategy;  // an expert to take instead of searching
};

// A plan and what it rests on.
struct PlanOutcome {
  Plan plan;                      // model and program version are the caller's to fill in
  EvaluatedStep step;             // the plan's own
  std::optional<Nanos> baseline;  // data_parallel's time, where it can run
  SearchResult search;
};

// The whole flow: experts -> search -> evaluation of the best -> plan. NotFound for unknown names;
// ResourceExhausted where nothing fits in memory; FailedPrecondition where the expert declines.
absl::StatusOr<PlanOutcome> MakePlan(const Evaluator& evaluator, const PlanRequest& request);

// The plan of one strategy, evaluated.
absl::StatusOr<PlanOutcome> PlanOf(const Evaluator& evaluator, const Strategy& strategy,
                                   const std::string& origin);

// A plan at hand, run as it says, with its own order. The evaluator's machine is the plan's, its
// choices are the plan's. Errors: those of BuildPlannedStep and VerifyStep; ResourceExhausted where
// it does not fit.
absl::StatusOr<PlanOutcome> EvaluatePlan(const Evaluator& evaluator, const Plan& plan);

}  // namespace partita
