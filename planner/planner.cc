#include "planner/planner.h"

#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"
#include "graph/task/plan_verifier.h"
#include "graph/task/planned_step.h"
#include "planner/expert/expert_strategies.h"

namespace partita {
namespace {

std::optional<Nanos> BaselineOf(const Evaluator& evaluator) {
  const auto strategy = DataParallel(evaluator.graph(), evaluator.topology());
  if (!strategy.ok()) return std::nullopt;
  const Evaluation evaluation = evaluator.Evaluate(*strategy);
  if (evaluation.verdict == Evaluation::Verdict::kInvalid) return std::nullopt;
  return evaluation.time;
}

// Of a plan and its evaluated step.
absl::StatusOr<PlanOutcome> OutcomeOf(const Evaluator& evaluator, Plan plan, EvaluatedStep step) {
  if (!step.evaluation.feasible()) return absl::ResourceExhaustedError(step.evaluation.reason);
  // However a plan was found, it meets the same independent check.
  RETURN_IF_ERROR(
      VerifyStep({evaluator.graph(), plan.strategy, step.tasks, step.order, &step.memory}));
  PlanOutcome outcome;
  outcome.baseline = BaselineOf(evaluator);
  outcome.search.best = plan.strategy;
  outcome.search.evaluation = step.evaluation;
  outcome.search.origin = plan.provenance.search;
  outcome.search.evaluations = 1;
  plan.prediction = PredictionOf(step.evaluation);
  outcome.plan = std::move(plan);
  outcome.step = std::move(step);
  return outcome;
}

}  // namespace

absl::StatusOr<PlanOutcome> PlanOf(const Evaluator& evaluator, const Strategy& strategy,
                                   const std::string& origin) {
  ASSIGN_OR_RETURN(EvaluatedStep step, evaluator.EvaluateStep(strategy));
  Plan plan;
  plan.topology = evaluator.topology();
  plan.strategy = strategy;
  plan.choices = evaluator.options().choices;
  plan.order = PlanOrderOf(step);
  plan.provenance.search = origin;
  plan.provenance.evaluations = 1;
  return OutcomeOf(evaluator, std::move(plan), std::move(step));
}

absl::StatusOr<PlanOutcome> EvaluatePlan(const Evaluator& evaluator, const Plan& plan) {
  ASSIGN_OR_RETURN(PlannedStep planned, BuildPlannedStep(evaluator.graph(), plan));
  ASSIGN_OR_RETURN(EvaluatedStep step,
                   evaluator.EvaluateOrder(std::move(planned.tasks), std::move(planned.order)));
  return OutcomeOf(evaluator, plan, std::move(step));
}

absl::StatusOr<PlanOutcome> MakePlan(const Evaluator& evaluator, const PlanRequest& request) {
  const Graph& graph = evaluator.graph();
  if (!request.strategy.empty()) {
    ASSIGN_OR_RETURN(const ExpertFunction expert, ExpertNamed(request.strategy));
    ASSIGN_OR_RETURN(const Strategy strategy, expert(graph, evaluator.topology()));
    return PlanOf(evaluator, strategy, request.strategy);
  }
  ASSIGN_OR_RETURN(const SearchFunction search, SearchNamed(request.search));
  const SearchSpace space(graph, evaluator.topology().size());
  const SearchProblem problem{evaluator, space, ExpertStarts(graph, evaluator.topology()), {}};
  ASSIGN_OR_RETURN(SearchResult result, search(problem, request.options));
  ASSIGN_OR_RETURN(PlanOutcome outcome, PlanOf(evaluator, result.best, request.search));
  outcome.plan.provenance.seed = request.options.seed;
  outcome.plan.provenance.evaluations = result.evaluations;
  outcome.plan.provenance.options = {absl::StrCat("evaluations=", request.options.evaluations),
                                     absl::StrCat("beta=", request.options.beta)};
  if (request.options.time_limit_seconds > 0) {
    outcome.plan.provenance.options.push_back(
        absl::StrCat("time_limit=", request.options.time_limit_seconds));
  }
  outcome.search = std::move(result);
  return outcome;
}

}  // namespace partita
