#pragma once

#include "absl/status/status.h"
#include "graph/graph.h"
#include "graph/partition/planned_step.h"
#include "runtime/executor/executor_setup.h"

namespace partita {

// Whether what a training run takes of this host's memory is there: the state of the graph's
// weights, and what the devices that are cores of this process keep for a step. Asked before any of
// it is taken, as a system that promises more than it has ends programs when they use it.
// ResourceExhausted with both figures.
absl::Status CheckHostMemory(const Graph& graph, const PlannedStep& step,
                             const ExecutorSetup& setup);

}  // namespace partita
