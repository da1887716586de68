#pragma once

#include "planner/planner.h"
#include "tools/cli/verb.h"
#include "tools/workflow/measured_search.h"

namespace partita {

// Adds the front of step time against peak memory that begins with the search's outcome, searched
// under the request: a table, and "front" in JSON. Errors: FindFront's.
absl::Status AddFront(const Graph& graph, const MeasuredSearch& search, const PlanRequest& request,
                      Answer& answer);

// Adds which operators are split how: a line for each run of operators of equal configuration text,
// and one that says what the loops are that some are split by; "splits" in JSON, with the devices of
// parts as ranges.
void AddSplits(const Graph& graph, const Strategy& strategy, Answer& answer);

// Adds what the step waits for, as the prices say: the largest CriticalShares, and the sum of the
// others; "critical" in JSON, of all. Nothing where the outcome has no tasks.
void AddCritical(const Graph& graph, const SimulatedResources& resources, const EvaluatedStep& step,
                 Answer& answer);

// Plan for one number of devices.
struct ScalingRow {
  int devices = 0;
  PlanOutcome outcome;
};
// Adds a line for each number of devices: step, speed-up over the first, the part of the devices'
// speed that it is, data parallelism's step, memory; "scaling" in JSON.
void AddScaling(const std::vector<ScalingRow>& rows, Answer& answer);

}  // namespace partita
