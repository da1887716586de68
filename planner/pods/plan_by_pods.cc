#include "planner/pods/plan_by_pods.h"

#include <atomic>
#include <utility>

#include "graph/support/status_macros.h"
#include "graph/support/stop_flag.h"
#include "planner/expert/expert_strategies.h"
#include "planner/fastest_strategy.h"
#include "planner/plan_clock.h"
#include "planner/pods/pod_collectives.h"
#include "planner/pods/pod_plan.h"
#include "planner/pods/pod_search.h"

namespace partita {
namespace {

// Seconds for each task of a step of all devices that is made, checked and ordered, beside that of data
// parallelism.
constexpr double kSecondsOfTask = 25e-6;
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
    SearchOptions options = OptionsOfSearch(request_, whole_);
    options.time_limit_seconds = clock_.LeftBut((1 - kSearchPart) * clock_.limit());
    PodSearch pods(whole_, request_.graph_at, search, options);
    RETURN_IF_ERROR(pods.Run());
    pods_ = &pods.pods();
    SearchResult& found = outcome_.search;
    found = pods.found();
    found.evaluations = pods.evaluations();
    found.seconds = clock_.Seconds();
    clock_.EndPhase("search");
    const BucketedStrategy fastest = TakeFastestOf(pods.problem());
    found.origin = NameForPods(found.origin, pods_->pods());
    pods_->evaluator().DropKept(Bytes(0));
    RETURN_IF_ERROR(FillPlan(fastest));
    clock_.EndPhase("plan");
    outcome_.phases = clock_.phases();
    return std::move(outcome_);
  }

 private:
  bool IsOver(double part) const { return IsSet(request_.options.stop) || clock_.IsPast(part); }

  BucketedStrategy TakeFastestOf(const SearchProblem& problem) {
    const PlanClock rest(clock_.LeftBut(0));
    const std::atomic<bool>* stop = request_.options.stop;
    baseline_ = BaselineAmong(problem.evaluator, problem.starts, rest, stop);
    const Evaluation& of_baseline = baseline_.ordered.in_best_order;
    if (baseline_.start != nullptr && of_baseline.feasible()) outcome_.baseline = of_baseline.time;
    clock_.EndPhase("data parallelism");
    BucketedStrategy fastest = TakeFastest(problem, baseline_, rest, stop, outcome_.search);
    clock_.EndPhase("buckets");
    return fastest;
  }

  // Whether there is room and time for a step of so many tasks.
  bool MayMake(int64_t tasks) const {
    const bool is_late =
        IsSet(request_.options.stop) || clock_.HasLess(kSecondsOfTask * static_cast<double>(tasks));
    return !is_late && HasRoomForTasks(tasks);
  }

  absl::Status FillPlan(const BucketedStrategy& fastest) {
    SearchResult& search = outcome_.search;
    ASSIGN_OR_RETURN(const Strategy of_all, pods_->OfAllPods(fastest.strategy));
    const auto data_parallel = DataParallel(whole_.graph(), whole_.topology());
    if (data_parallel.ok() && *data_parallel == of_all) {
      search.origin = outcome_.expert = kBaseline;
    }
    ASSIGN_OR_RETURN(PlanOutcome made, PlanOfPods(
                                           *pods_, fastest, [this] { return IsOver(1); },
                                           OrdersFor(OptionsOfSearch(request_, whole_), clock_)));
    outcome_.plan = std::move(made.plan);
    outcome_.step = std::move(made.step);
    outcome_.pods = made.pods;
    outcome_.plan.provenance.search = request_.search;
    if (made.pods->is_named && MayMake(outcome_.step.evaluation.tasks)) {
      RETURN_IF_ERROR(FillFromAll(outcome_.plan.strategy));
    }
    outcome_.plan.provenance.seed = request_.options.seed;
    outcome_.plan.provenance.evaluations = search.evaluations;
    search.best = outcome_.plan.strategy;
    search.evaluation = outcome_.step.evaluation;
    return absl::OkStatus();
  }

  absl::Status FillFromAll(const Strategy& of_all) {
    ASSIGN_OR_RETURN(PlanOutcome whole,
                     PlanAsIs(whole_, of_all, request_.search,
                              {.priority = outcome_.step.priority, .draws = outcome_.step.draws}));
    RETURN_IF_ERROR(CompareWithBaseline(whole));
    outcome_.plan = std::move(whole.plan);
    outcome_.step = std::move(whole.step);
    outcome_.pods->is_whole = outcome_.pods->is_checked = true;
    return absl::OkStatus();
  }

  // Takes data parallelism where the step of all devices is faster under it: other pods may be a
  // little slower than the first.
  absl::Status CompareWithBaseline(PlanOutcome& found) {
    if (outcome_.expert == kBaseline) outcome_.baseline = found.step.evaluation.time;
    if (outcome_.expert == kBaseline || !outcome_.baseline.has_value()) return absl::OkStatus();
    ASSIGN_OR_RETURN(const auto named,
                     OfAllPodsWithCollectives(*pods_, baseline_.ordered.bucketed));
    const Evaluation evaluation = whole_.EvaluateBrieflyInBestOrder(*named);
    whole_.DropKept(Bytes(0));
    if (!evaluation.feasible()) return absl::OkStatus();
    outcome_.baseline = evaluation.time;
    if (evaluation.time >= found.step.evaluation.time) return absl::OkStatus();
    outcome_.search.origin = outcome_.expert = kBaseline;
    ASSIGN_OR_RETURN(found, PlanAsIs(whole_, *named, request_.search));
    return absl::OkStatus();
  }

  const Evaluator& whole_;
  const PlanRequest& request_;
  PlanClock clock_;
  const PodProblem* pods_ = nullptr;  // of what was found
  Baseline baseline_;                 // data parallelism of such a pod
  PlanOutcome outcome_;
};

}  // namespace

absl::StatusOr<PlanOutcome> PlanByPods(const Evaluator& whole, const PlanRequest& request) {
  return PodPlanner(whole, request).Run();
}

}  // namespace partita
