#include "graph/partition/planned_step.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "graph/support/status_macros.h"
#include "graph/task/task_order.h"

namespace partita {
namespace {

// Why the order is not that of these tasks; empty: it is.
std::string NoteOnOrder(const TaskGraph& tasks, const PlanOrder& order) {
  if (order.task_graph_fingerprint == tasks.fingerprint()) return "";
  return absl::StrFormat(
      "the plan's order is for a task graph with fingerprint %016x; its strategy gives %016x: the "
      "strategy was edited, or another version of the program made the plan; the order is left "
      "out, and lanes run in the canonical order, which may be slower; plan again for a better one",
      order.task_graph_fingerprint, tasks.fingerprint());
}

// Precondition: NoteOnOrder is empty.
absl::Status CheckCount(const TaskGraph& tasks, const PlanOrder& order) {
  if (order.tasks.size() == tasks.tasks().size()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the plan's order has ", order.tasks.size(), " tasks; its task graph has ",
                   tasks.tasks().size(),
                   "; delete order, task_graph_fingerprint and prediction to run in the canonical "
                   "order"));
}

}  // namespace

PartitionOptions PartitionOptionsOf(const DeviceTopology& topology,
                                    const PartitionChoices& choices) {
  PartitionOptions options{.devices = topology.size(),
                           .collectives = choices.collectives,
                           .direct_bytes = choices.direct_bytes,
                           .fuse = choices.fuse,
                           .native_formats = choices.native_formats};
  std::map<std::string, int32_t> classes;
  for (const Device& device : topology.devices()) {
    options.node_of_device.push_back(device.node);
    const auto [it, added] =
        classes.try_emplace(device.device_class, static_cast<int32_t>(classes.size()));
    // Of the backends only the cores' have a native format.
    options.class_of_device.push_back(
        device.kind == DeviceKind::kCpu ? it->second : PartitionOptions::kDenseOnly);
    // And of the backends only the GPUs' have other precisions and kernels that are not
    // deterministic.
    if (choices.nondeterministic) {
      options.nondeterministic_of_device.push_back(device.kind == DeviceKind::kGpu);
    }
    if (choices.precision == Precision::kFloat32) continue;
    const auto& others = choices.float32_classes;
    const bool has = device.kind == DeviceKind::kGpu &&
                     std::find(others.begin(), others.end(), device.device_class) == others.end();
    options.precision_of_device.push_back(has ? choices.precision : Precision::kFloat32);
  }
  return options;
}

absl::StatusOr<PlannedStep> BuildPlannedStep(const Graph& graph, const Plan& plan,
                                             std::span<const Precision> precision_of_device,
                                             std::optional<bool> nondeterministic) {
  PlannedStep step;
  PartitionOptions options = PartitionOptionsOf(plan.topology, plan.choices);
  if (!precision_of_device.empty()) {
    options.precision_of_device.assign(precision_of_device.begin(), precision_of_device.end());
  }
  if (nondeterministic.has_value()) {
    options.nondeterministic_of_device.assign(static_cast<size_t>(options.devices),
                                              *nondeterministic);
  }
  ASSIGN_OR_RETURN(step.tasks, Partition(graph, plan.strategy, options));
  if (plan.order) {
    step.note = NoteOnOrder(step.tasks, *plan.order);
  } else if (!plan.priority.empty()) {
    step.note = absl::StrCat("the plan has no order of its tasks, only the rule '", plan.priority,
                             "' that the prediction found one by; lanes run in the canonical "
                             "order, which may be slower");
  }
  if (!plan.order || !step.note.empty()) {
    step.order = CanonicalOrder(step.tasks);
    return step;
  }
  RETURN_IF_ERROR(CheckCount(step.tasks, *plan.order));
  for (int32_t task : plan.order->tasks) step.order.push_back(TaskId(task));
  RETURN_IF_ERROR(CheckOrder(step.tasks, step.order));
  return step;
}

}  // namespace partita
