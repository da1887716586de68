#pragma once

#include "absl/status/status.h"
#include "graph/graph.h"
#include "graph/parallel/plan.h"

namespace partita {

// Builds the plan's task graph, assigns memory (dense buffers) and verifies both. Errors as
// VerifyStep.
absl::Status VerifyPlan(const Graph& graph, const Plan& plan);

}  // namespace partita
