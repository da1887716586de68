#include "tools/workflow/dense_step.h"

#include <utility>
#include <vector>

#include "graph/support/status_macros.h"
#include "graph/task/task_order.h"
#include "graph/verify/task_checks.h"

namespace partita {

absl::StatusOr<PlannedStep> BuildDenseStep(const Graph& graph, const Plan& plan,
                                           std::span<const Precision> precision_of_device,
                                           bool nondeterministic) {
  Plan dense = plan;
  dense.choices.native_formats = false;
  dense.order.reset();
  ASSIGN_OR_RETURN(PlannedStep step,
                   BuildPlannedStep(graph, dense, precision_of_device, nondeterministic));
  if (plan.order.has_value() && plan.order->tasks.size() == step.tasks.tasks().size()) {
    std::vector<TaskId> order;
    for (int32_t task : plan.order->tasks) order.push_back(TaskId(task));
    if (CheckOrder(step.tasks, order).ok()) step.order = std::move(order);
  }
  return step;
}

}  // namespace partita
