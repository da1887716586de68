#include "planner/plan_by_pods.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/partition/planned_step.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"
#include "graph/support/stop_flag.h"
#include "graph/task/task_order.h"
#include "graph/verify/step_verifier.h"

namespace partita {
namespace {

// Tasks up to which the step of all devices is made, checked and ordered.
constexpr int64_t kMostTasks = 60'000;
// Parts of a time limit: what the lower bound may take, and the search.
constexpr double kBoundPart = 0.1, kSearchPart = 0.6;
constexpr char kDataParallel[] = "data_parallel";

class PodPlanner {
 public:
  PodPlanner(const Evaluator& whole, const PlanRequest& request)
      : whole_(whole), request_(request) {}

  absl::StatusOr<PlanOutcome> Run() {
    outcome_.bound = request_.bound.has_value()
                         ? *request_.bound
                         : LowerBoundOf(whole_, [this] { return IsOver(kBoundPart); });
    EndPhase("lower bound");
    const std::vector<int> sizes = PodSizes(whole_);
    if (sizes.empty()) return NoPods();
    for (size_t k = 0; k < sizes.size(); ++k) {
      if (k > 0 && IsOver(kSearchPart)) break;
      RETURN_IF_ERROR(SearchPods(sizes[k], sizes.size() - k));
    }
    RETURN_IF_ERROR(status_);
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

  absl::Status NoPods() const {
    return DeclinedError(absl::StrCat("batch ", whole_.graph().batch(),
                                      " has no equal shares for pods of ", whole_.topology().size(),
                                      " devices. Try a batch that is a multiple of the devices"));
  }

  // Looks for a strategy of pods of this size that is faster than what was found for smaller ones;
  // `sizes`: that are left, this one among them. Sizes that do not go are left out: status_ says why
  // as long as none has gone.
  absl::Status SearchPods(int size, size_t sizes) {
    auto pods = PodProblem::Create(whole_, request_.graph_at, size);
    if (!pods.ok()) {
      if (pods_ == nullptr) status_ = pods.status();
      return absl::OkStatus();
    }
    SearchProblem problem = (*pods)->Problem();
    if (pods_ != nullptr) {
      ASSIGN_OR_RETURN(Strategy best, Enlarged(**pods));
      problem.starts.insert(problem.starts.begin(), {outcome_.search.origin, std::move(best)});
    } else {
      FindBaseline(**pods, problem);
    }
    ASSIGN_OR_RETURN(const SearchFunction search, SearchNamed(request_.search));
    // Half of what is left, as long as there are larger pods.
    const SearchOptions options = OptionsOf(sizes > 1 ? 2 : 1);
    absl::StatusOr<SearchResult> found = search(problem, options);
    if (!found.ok()) {
      if (pods_ == nullptr) status_ = found.status();
      return absl::IsCancelled(found.status()) && pods_ == nullptr ? found.status()
                                                                   : absl::OkStatus();
    }
    evaluations_ += found->evaluations;
    const bool is_better =
        pods_ == nullptr || found->evaluation.time < outcome_.search.evaluation.time;
    if (!is_better) return absl::OkStatus();
    status_ = absl::OkStatus();
    outcome_.search = *std::move(found);
    outcome_.expert = "";
    for (const NamedStrategy& start : problem.starts) {
      const bool is_best = start.strategy == outcome_.search.best;
      if (is_best && ExpertNamed(start.name).ok()) outcome_.expert = start.name;
    }
    pods_ = *std::move(pods);
    return absl::OkStatus();
  }

  // The best strategy of smaller pods for those that are several of them.
  absl::StatusOr<Strategy> Enlarged(const PodProblem& larger) const {
    return StrategyOfPods(pods_->graph(), larger.graph(), outcome_.search.best,
                          {pods_->pods().devices, larger.pods().devices / pods_->pods().devices});
  }

  // A part of the evaluations and the time that are left.
  SearchOptions OptionsOf(int parts) const {
    SearchOptions options = request_.options;
    options.evaluations = std::max<int64_t>(1, (options.evaluations - evaluations_) / parts);
    if (options.time_limit_seconds > 0) {
      const double left = kSearchPart * options.time_limit_seconds - Seconds();
      options.time_limit_seconds = std::max(1e-3, left / parts);
    }
    return options;
  }

  void FindBaseline(const PodProblem& pods, const SearchProblem& problem) {
    for (const NamedStrategy& start : problem.starts) {
      if (start.name != kDataParallel) continue;
      const Evaluation evaluation =
          pods.evaluator().EvaluateBriefly(start.strategy, kNoCutoff, [this] { return IsOver(1); });
      if (evaluation.feasible()) outcome_.baseline = evaluation.time;
    }
  }

  absl::Status MakePlan() {
    SearchResult& search = outcome_.search;
    search.seconds = phase_;
    ASSIGN_OR_RETURN(EvaluatedStep step, pods_->evaluator().EvaluateStep(search.best));
    ASSIGN_OR_RETURN(Strategy of_all, pods_->OfAllPods(search.best));
    Plan& plan = outcome_.plan;
    plan.topology = whole_.topology();
    plan.choices = whole_.options().choices;
    plan.provenance.search = outcome_.expert.empty() ? request_.search : outcome_.expert;
    plan.provenance.seed = request_.options.seed;
    search.evaluations = plan.provenance.evaluations = evaluations_;
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
  absl::Status status_;               // why no pods have gone so far
  std::unique_ptr<PodProblem> pods_;  // of the best so far; null at first
  int64_t evaluations_ = 0;
  PlanOutcome outcome_;
};

}  // namespace

absl::StatusOr<PlanOutcome> PlanByPods(const Evaluator& whole, const PlanRequest& request) {
  return PodPlanner(whole, request).Run();
}

}  // namespace partita
