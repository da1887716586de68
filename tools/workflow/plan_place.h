#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/parallel/plan.h"
#include "graph/support/strong_int.h"
#include "planner/pods/pod_problem.h"
#include "tools/workflow/priced_machine.h"

namespace partita {

// A plan that is to be written, and what there is to compare it with.
struct NewPlan {
  const Graph& graph;
  const Plan& plan;  // plan with its prediction by `priced`
  const PricedMachine& priced;
  // Path that was asked for.
  std::string path;
  GraphAt graph_at = nullptr;  // as in EvaluatePlan
  // Ctrl-C ended the search for it.
  bool interrupted = false;
  // Overwrites whatever is there; or a plan, if not anything.
  bool replace = false, replace_plans = false;
};

// Place to which a plan is written.
struct PlanPlace {
  std::string path;  // path as asked for, or a name in the same folder
  // Reason why the existing file is kept; empty if the plan replaces it.
  std::string kept;
  std::optional<Nanos> kept_time;  // predicted time of the plan in that file, by today's prices
  std::string replaced;            // description for people of an overwritten file that cannot be
                                   // compared
};

// A plan file gives way to no plan that is slower when both are priced today, and none to the
// result of a search that was interrupted unless that is faster. That is for plans of one model,
// batch, machine and precision, which can be compared; a plan of something else gives way to
// whatever a search has found that was not interrupted, and a file that is no plan to nothing. What
// may not go there goes next to it: x.plan.textproto -> x.slower.plan.textproto,
// x.interrupted.plan.textproto, x.new.plan.textproto, with a number after the word where the same
// rule keeps what is there. AlreadyExists if there are too many of these.
absl::StatusOr<PlanPlace> PlaceOf(const NewPlan& plan);

}  // namespace partita
