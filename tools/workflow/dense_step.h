#pragma once

#include <span>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/parallel/plan.h"
#include "graph/partition/planned_step.h"

namespace partita {

// The plan's step without native formats, which belong to the backend that it was made for: for
// other arithmetics and backends. In the plan's order where it has one that fits. `graph` is the
// plan's, maybe at another batch or over the ring. `precision_of_device`: as of BuildPlannedStep.
// Deterministic unless the last says otherwise, whatever the plan's prediction is of.
absl::StatusOr<PlannedStep> BuildDenseStep(const Graph& graph, const Plan& plan,
                                           std::span<const Precision> precision_of_device = {},
                                           bool nondeterministic = false);

}  // namespace partita
