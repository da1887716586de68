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
  if (plan.order.has_value()) dense.priority.clear();  // it is the order's
  ASSIGN_OR_RETURN(PlannedStep step,
                   BuildPlannedStep(graph, dense, precision_of_device, nondeterministic));
  if (!plan.order.has_value()) return step;
  std::vector<TaskId> order;
  for (int32_t task : plan.order->tasks) order.push_back(TaskId(task));
  if (CheckOrder(step.tasks, order).ok()) {
    step.order = std::move(order);
  } else {
    step.note =
        "the plan's order has tasks for the formats of the backend that it was made for; "
        "without these lanes run in the canonical order, which may be slower";
  }
  return step;
}

}  // namespace partita
