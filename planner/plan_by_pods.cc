#include "planner/plan_by_pods.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/partition/planned_step.h"
#include "graph/support/status_macros.h"
#include "graph/support/stop_flag.h"
#include "graph/task/task_order.h"
#include "graph/verify/step_verifier.h"
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
      : whole_(whole), request_(request) {}

  absl::StatusOr<PlanOutcome> Run() {
    outcome_.bound = request_.bound.has_value()
                         ? *request_.bound
                         : LowerBoundOf(whole_, [this] { return IsOver(kBoundPart); });
    EndPhase("lower bound");
    ASSIGN_OR_RETURN(const SearchFunction search, SearchNamed(request_.search));
    SearchOptions options = request_.options;
    if (options.time_limit_seconds > 0) {
      options.time_limit_seconds =
          std::max(1e-3, kSearchPart * options.time_limit_seconds - Seconds());
    }
    PodSearch pods(whole_, request_.graph_at, search, options);
    RETURN_IF_ERROR(pods.Run());
    pods_ = &pods.pods();
    outcome_.search = pods.found();
    outcome_.search.evaluations = pods.evaluations();
    outcome_.search.origin = pods.OriginOfAll();
    outcome_.baseline = pods.data_parallel();
    EndPhase("search");
    pods_->evaluator().DropKept(Bytes(0));
    RETURN_IF_ERROR(MakePlan());
    EndPhase("plan");
    return std::move(outcome_);
  }

 private:
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  bool IsOver(double share) const {
    const double limit = request_.options.time_limit_seconds;
    return IsSet(request_.options.stop) || (limit > 0 && Seconds() > share * limit);
  }
  void EndPhase(const char* name) {
    const double now = Seconds();
    outcome_.phases.push_back({name, now - phase_});
    phase_ = now;
  }

  absl::Status MakePlan() {
    SearchResult& search = outcome_.search;
    search.seconds = phase_;
    ASSIGN_OR_RETURN(EvaluatedStep step, pods_->evaluator().EvaluateStep(search.best));
    ASSIGN_OR_RETURN(Strategy of_all, pods_->OfAllPods(search.best));
    Plan& plan = outcome_.plan;
    plan.topology = whole_.topology();
    plan.choices = whole_.options().choices;
    plan.provenance.search = request_.search;
    plan.provenance.seed = request_.options.seed;
    plan.provenance.evaluations = search.evaluations;
    outcome_.pods = PlanOutcome::ByPods{pods_->pods()};
    if (step.evaluation.tasks * pods_->pods().count <= kMostTasks) {
      RETURN_IF_ERROR(MakeWhole(of_all));
    } else {
      RETURN_IF_ERROR(CheckBuilt(search.best, step.evaluation.tasks));
      plan.strategy = std::move(of_all);
      step.evaluation = pods_->OfAllDevices(std::move(step.evaluation));
      outcome_.step = std::move(step);
    }
    plan.prediction = PredictionOf(outcome_.step.evaluation);
    search.best = plan.strategy;
    search.evaluation = outcome_.step.evaluation;
    return absl::OkStatus();
  }

  absl::Status MakeWhole(const Strategy& strategy) {
    ASSIGN_OR_RETURN(outcome_.step, whole_.EvaluateStep(strategy));
    const EvaluatedStep& step = outcome_.step;
    RETURN_IF_ERROR(
        VerifyStep({whole_.graph(), step.strategy, step.tasks, step.order, &step.memory}));
    outcome_.plan.strategy = step.strategy;
    outcome_.plan.order = PlanOrderOf(step, *whole_.options().priority);
    outcome_.pods->is_whole = outcome_.pods->is_checked = true;
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
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  double phase_ = 0;                  // when the current phase began
  const PodProblem* pods_ = nullptr;  // of what was found
  PlanOutcome outcome_;
};

}  // namespace

absl::StatusOr<PlanOutcome> PlanByPods(const Evaluator& whole, const PlanRequest& request) {
  return PodPlanner(whole, request).Run();
}

}  // namespace partita
