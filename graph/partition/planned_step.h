#pragma once

#include <optional>
#include <span>
#include <string>
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
  std::string note = {};  // note for people on why the plan's order was left out; empty: it was not
};

// The same for planner and runtime. `graph`: the training graph that the plan is for.
// An order for another task graph, by its fingerprint, is left out: the strategy stays good, and
// runs in the canonical order. InvalidArgument if the strategy does not fit, or if the plan's order
// is none of its task graph (other number of tasks, a task before one that it depends on).
// `precision_of_device`: as PartitionOptions has it, where devices are not of the kinds that the
// plan names; empty: by the plan. `nondeterministic`: whether bits of products may differ from run
// to run, on all devices that have kernels for it; absent: by the plan.
absl::StatusOr<PlannedStep> BuildPlannedStep(const Graph& graph, const Plan& plan,
                                             std::span<const Precision> precision_of_device = {},
                                             std::optional<bool> nondeterministic = {});

}  // namespace partita
