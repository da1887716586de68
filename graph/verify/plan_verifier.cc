#include "graph/verify/plan_verifier.h"

#include "graph/partition/planned_step.h"
#include "graph/support/status_macros.h"
#include "graph/task/buffer_assignment.h"
#include "graph/verify/step_verifier.h"

namespace partita {

absl::Status VerifyPlan(const Graph& graph, const Plan& plan) {
  ASSIGN_OR_RETURN(const PlannedStep step, BuildPlannedStep(graph, plan));
  const BufferAssignment memory = AssignBuffers(step.tasks, step.order, {});
  return VerifyStep({graph, plan.strategy, step.tasks, step.order, &memory});
}

}  // namespace partita
