#include "planner/pods/pod_plan.h"

#include <utility>
#include <vector>

#include "graph/parallel/pods.h"
#include "graph/partition/planned_step.h"
#include "graph/support/error_category.h"
#include "graph/support/memory.h"
#include "graph/support/status_macros.h"
#include "graph/task/task_order.h"
#include "graph/verify/step_verifier.h"
#include "planner/pods/pod_collectives.h"

namespace partita {
namespace {

// What a step takes to be made, checked and ordered, for each task: measured with up to 280,000 tasks of
// GPT and ResNet-50 on 128 and 256 devices. It is made up to so many bytes.
constexpr int64_t kBytesOfTask = 3'000, kMostBytes = int64_t{256} << 20;

absl::Status CheckBuilt(const PodProblem& pods, const Strategy& strategy) {
  ASSIGN_OR_RETURN(const Evaluator::BuiltStep step, pods.evaluator().BuildStep(strategy));
  return VerifyStep({pods.built(), step.strategy, step.tasks, CanonicalOrder(step.tasks)});
}

// The pod's strategy with the buckets, of a size that plans have, that the strategy of all pods has.
absl::StatusOr<BucketedStrategy> WithBucketsOf(const PodProblem& pods, const Strategy& of_pod,
                                               const Strategy& of_all) {
  std::vector<Bytes> sizes(BucketSizes().begin(), BucketSizes().end());
  if (of_all.buckets.empty()) sizes = {Bytes(0)};
  for (Bytes size : sizes) {
    BucketedStrategy bucketed{of_pod, {}};
    bucketed.evaluation.bucket_bytes = size;
    ASSIGN_OR_RETURN(bucketed.strategy, pods.evaluator().WithBucketsUpTo(of_pod, size));
    ASSIGN_OR_RETURN(const auto named, OfAllPodsWithCollectives(pods, bucketed));
    if (*named == of_all) return bucketed;
  }
  return absl::InvalidArgumentError(
      "the plan's algorithms and buckets are not those that its pods have by price");
}

}  // namespace

bool HasRoomForTasks(int64_t tasks) {
  const int64_t bytes = kBytesOfTask * tasks;
  return bytes <= kMostBytes && 2 * bytes <= AvailableMemory(UsableMemory());
}

absl::StatusOr<PlanOutcome> PlanOfPods(const PodProblem& pods, const BucketedStrategy& of_pod,
                                       const std::function<bool()>& interrupted,
                                       const OrderSearch& orders) {
  PlanOutcome outcome;
  PlanOutcome::ByPods& by_pods = outcome.pods.emplace(PlanOutcome::ByPods{.pods = pods.pods()});
  ASSIGN_OR_RETURN(outcome.step, pods.evaluator().EvaluateBestOrder(of_pod.strategy, orders));
  const Evaluation& evaluation = outcome.step.evaluation;
  if (!evaluation.feasible()) return MemoryError(evaluation.reason);
  ASSIGN_OR_RETURN(auto named, OfAllPodsWithCollectives(pods, of_pod, interrupted));
  by_pods.is_named = named.has_value();
  Plan& plan = outcome.plan;
  if (named.has_value()) {
    plan.strategy = *std::move(named);
    plan.priority = outcome.step.priority->name;
    plan.priority_draws = outcome.step.draws;
  } else {
    ASSIGN_OR_RETURN(plan.strategy, pods.OfAllPods(of_pod.strategy));
  }
  const int64_t tasks_of_built = evaluation.tasks * PodView::BuiltOf(pods.pods());
  if (!(interrupted && interrupted()) && HasRoomForTasks(tasks_of_built)) {
    RETURN_IF_ERROR(CheckBuilt(pods, of_pod.strategy));
    by_pods.is_checked = true;
  }
  outcome.step.evaluation = pods.OfAllDevices(std::move(outcome.step.evaluation));
  plan.topology = pods.whole().topology();
  plan.choices = pods.whole().options().choices;
  plan.prediction = PredictionOf(outcome.step.evaluation);
  outcome.search.best = plan.strategy;
  outcome.search.evaluation = outcome.step.evaluation;
  return outcome;
}

absl::StatusOr<PlanOutcome> EvaluatePlanOfPods(const Evaluator& whole, const GraphAt& graph_at,
                                               const Plan& plan) {
  absl::Status status = absl::InvalidArgumentError("the plan's batch has no pods");
  for (int size : PodSizes(whole)) {
    ASSIGN_OR_RETURN(const auto pods, PodProblem::Create(whole, graph_at, size));
    const auto of_pod =
        StrategyOfFirstPod(pods->graph(), whole.graph(), plan.strategy, pods->pods());
    status = of_pod.status();
    if (!of_pod.ok()) continue;
    ASSIGN_OR_RETURN(const BucketedStrategy bucketed, WithBucketsOf(*pods, *of_pod, plan.strategy));
    ASSIGN_OR_RETURN(PlanOutcome outcome, PlanOfPods(*pods, bucketed));
    outcome.plan.model = plan.model;
    outcome.plan.provenance = plan.provenance;
    outcome.search.origin = plan.provenance.search;
    outcome.search.evaluations = 1;
    return outcome;
  }
  return status;
}

}  // namespace partita
