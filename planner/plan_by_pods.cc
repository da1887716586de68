#include "planner/plan_by_pods.h"

#include <string>
#include <utility>

#include "graph/partition/planned_step.h"
#include "graph/support/status_macros.h"
#include "graph/support/stop_flag.h"
#include "graph/task/task_order.h"
#include "graph/verify/step_verifier.h"
#include "planner/expert/expert_strategies.h"
#include "planner/plan_clock.h"
#include "planner/pod_search.h"

namespace partita {
namespace {

// Tasks up to which the step of all devices is made, checked and ordered.
constexpr int64_t kMostTasks = 60'000;
// Parts of a time limit: what the lower bound may take, and the search.
constexpr double kBoundPart = 0.1, kSearchPart = 0.6;

class PodPlanner {
 public:
  PodPlanner(const Evaluator& whole, const PlanRequest& request)
      : whole_(whole), request_(request), clock_(request.options.time_limit_seconds) {}

  absl::StatusOr<PlanOutcome> Run() {
    outcome_.bound = request_.bound.has_value()
                         ? *request_.bound
                         : LowerBoundOf(whole_, [this] { return IsOver(kBoundPart); });
    clock_.EndPhase("lower bound");
    ASSIGN_OR_RETURN(const SearchFunction search, SearchNamed(request_.search));
    SearchOptions options = request_.options;
    options.time_limit_seconds = clock_.LeftBut((1 - kSearchPart) * clock_.limit());
    PodSearch pods(whole_, request_.graph_at, search, options);
    RETURN_IF_ERROR(pods.Run());
    pods_ = &pods.pods();
    outcome_.search = pods.found();
    outcome_.search.evaluations = pods.evaluations();
    outcome_.search.origin = pods.OriginOfAll();
    outcome_.search.seconds = clock_.Seconds();
    clock_.EndPhase("search");
    FindBaseline();
    clock_.EndPhase("data parallelism");
    pods_->evaluator().DropKept(Bytes(0));
    RETURN_IF_ERROR(FillPlan());
    clock_.EndPhase("plan");
    outcome_.phases = clock_.phases();
    return std::move(outcome_);
  }

 private:
  bool IsOver(double part) const { return IsSet(request_.options.stop) || clock_.IsPast(part); }

  void FindBaseline() {
    const Evaluator& evaluator = pods_->evaluator();
    const auto strategy = DataParallel(evaluator.graph(), evaluator.topology());
    if (!strategy.ok()) return;
    const Evaluation evaluation =
        evaluator.EvaluateBriefly(*strategy, kNoCutoff, [this] { return IsOver(1); });
    if (!evaluation.feasible()) return;
    outcome_.baseline = evaluator.EvaluateBrieflyInBestOrder(*strategy).time;
  }

  absl::Status FillPlan() {
    SearchResult& search = outcome_.search;
    ASSIGN_OR_RETURN(EvaluatedStep step, pods_->evaluator().EvaluateBestOrder(search.best));
    ASSIGN_OR_RETURN(Strategy of_all, pods_->OfAllPods(search.best));
    outcome_.pods = PlanOutcome::ByPods{pods_->pods()};
    Plan& plan = outcome_.plan;
    if (step.evaluation.tasks * pods_->pods().count <= kMostTasks) {
      ASSIGN_OR_RETURN(PlanOutcome whole, PlanAsIs(whole_, of_all, request_.search));
      plan = std::move(whole.plan);
      outcome_.step = std::move(whole.step);
      outcome_.pods->is_whole = outcome_.pods->is_checked = true;
    } else {
      RETURN_IF_ERROR(CheckBuilt(search.best, step.evaluation.tasks));
      step.evaluation = pods_->OfAllDevices(std::move(step.evaluation));
      plan.topology = whole_.topology();
      plan.strategy = std::move(of_all);
      plan.choices = whole_.options().choices;
      plan.prediction = PredictionOf(step.evaluation);
      plan.provenance.search = request_.search;
      outcome_.step = std::move(step);
    }
    plan.provenance.seed = request_.options.seed;
    plan.provenance.evaluations = search.evaluations;
    search.best = plan.strategy;
    search.evaluation = outcome_.step.evaluation;
    return absl::OkStatus();
  }

  // The step of the built pods, where it has few tasks.
  absl::Status CheckBuilt(const Strategy& strategy, int64_t tasks_of_one) {
    const Pods built{pods_->pods().devices, PodView::BuiltOf(pods_->pods())};
    if (tasks_of_one * built.count > kMostTasks) return absl::OkStatus();
    ASSIGN_OR_RETURN(const Strategy of_built,
                     StrategyOfPods(pods_->graph(), pods_->built(), strategy, built));
    ASSIGN_OR_RETURN(const DeviceTopology devices,
                     whole_.topology().TakeDevices(built.devices * built.count));
    ASSIGN_OR_RETURN(
        const TaskGraph tasks,
        Partition(pods_->built(), of_built, PartitionOptionsOf(devices, whole_.options().choices)));
    RETURN_IF_ERROR(VerifyStep({pods_->built(), of_built, tasks, CanonicalOrder(tasks)}));
    outcome_.pods->is_checked = true;
    return absl::OkStatus();
  }

  const Evaluator& whole_;
  const PlanRequest& request_;
  PlanClock clock_;
  const PodProblem* pods_ = nullptr;  // of what was found
  PlanOutcome outcome_;
};

}  // namespace

absl::StatusOr<PlanOutcome> PlanByPods(const Evaluator& whole, const PlanRequest& request) {
  return PodPlanner(whole, request).Run();
}

}  // namespace partita
