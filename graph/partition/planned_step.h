#pragma once

#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/parallel/plan.h"
#include "graph/partition/partition.h"
#include "graph/task/task_graph.h"

namespace partita {

// Options of Partition on a machine.
PartitionOptions PartitionOptionsOf(const DeviceTopology& topology,
                                    const PartitionChoices& choices);

// A plan's task graph and the total order in which its lanes run.
struct PlannedStep {
  TaskGraph tasks;
  std::vector<TaskId> order;
};

// The same for planner and runtime. `graph`: the training graph that the plan is for.
// InvalidArgument if the strategy does not fit, or if the plan's order is not one of this task
// graph (other fingerprint or number of tasks, a task before one that it depends on).
// `precision_of_device`: as PartitionOptions has it, where devices are not of the kinds that the
// plan names; empty: by the plan.
absl::StatusOr<PlannedStep> BuildPlannedStep(const Graph& graph, const Plan& plan,
                                             std::span<const Precision> precision_of_device = {});

}  // namespace partita
