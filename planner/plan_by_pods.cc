#include "planner/plan_by_pods.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "graph/partition/planned_step.h"
#include "graph/support/memory.h"
#include "graph/support/status_macros.h"
#include "graph/support/stop_flag.h"
#include "graph/task/task_order.h"
#include "graph/verify/step_verifier.h"
#include "planner/collective_choice.h"
#include "planner/expert/expert_strategies.h"
#include "planner/plan_clock.h"
#include "planner/pod_search.h"
#include "planner/search/walk.h"

namespace partita {
namespace {

// What the step of all devices takes to be made, checked and ordered, beside that of data parallelism
// and with their buckets, for each task: measured with up to 280,000 tasks of GPT and ResNet-50 on 128 and
// 256 devices. It is made up to so many bytes, if there is as much memory again.
constexpr double kSecondsOfTask = 25e-6;
constexpr int64_t kBytesOfTask = 3'000, kMostBytes = int64_t{5} << 30;
// Starts that take up to so many times the best without a choice of orders may be faster in theirs.
constexpr double kBeyondOrders = 1.5;
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
    // What is not made has no buckets.
    pods.SetHasBuckets([this](int64_t tasks) { return MayMake(tasks); });
    RETURN_IF_ERROR(pods.Run());
    pods_ = &pods.pods();
    outcome_.search = pods.found();
    outcome_.search.evaluations = pods.evaluations();
    outcome_.search.origin = pods.OriginOfAll();
    outcome_.search.seconds = clock_.Seconds();
    clock_.EndPhase("search");
    FindBaseline();
    clock_.EndPhase("data parallelism");
    TakeFastest();
    clock_.EndPhase("orders");
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

  // A pod's time in its best order, or in the search's with buckets; kNoCutoff where it does not fit, or
  // takes longer than `near` in the search's.
  Nanos TimeOf(const Strategy& strategy, Nanos near, Bytes bucket_bytes) const {
    const Evaluator& evaluator = pods_->evaluator();
    const Evaluation joined =
        evaluator.EvaluateBriefly(strategy, near, [this] { return IsOver(1); }, bucket_bytes);
    if (!joined.is_within()) return kNoCutoff;
    const Evaluation ordered = evaluator.EvaluateBrieflyInBestOrder(strategy);
    return ordered.feasible() ? std::min(joined.time, ordered.time) : joined.time;
  }

  // Takes a start, or another strategy that the search found, in place of the best where it is faster
  // in the best order, which a search does without.
  void TakeFastest() {
    SearchResult& found = outcome_.search;
    const bool has_buckets = MayMake(found.evaluation.tasks * pods_->pods().count);
    const Bytes bucket_bytes = has_buckets ? found.evaluation.bucket_bytes : Bytes(0);
    const Nanos near = TimesOf(found.evaluation.time, kBeyondOrders);
    Nanos best = TimeOf(found.best, kNoCutoff, bucket_bytes);
    std::vector<NamedStrategy> others = pods_->Problem(/*has_fewer=*/false).starts;
    for (FoundStrategy& one : found.by_origin) others.push_back(std::move(one.found));
    found.by_origin.clear();
    for (NamedStrategy& other : others) {
      if (IsOver(1)) return;
      const Nanos time = TimeOf(other.strategy, near, bucket_bytes);
      if (time >= best) continue;
      best = time;
      found.best = std::move(other.strategy);
      found.origin = NameForPods(other.name, pods_->pods());
      found.walked_all = found.locally_optimal = false;
    }
  }

  // A strategy of all devices in its best order, with the best buckets or without any.
  struct Ordered {
    Strategy strategy;
    Evaluation evaluation;
  };
  Ordered InBestOrder(const Strategy& strategy) const {
    Strategy joined = WithBuckets(whole_, strategy, [this] { return IsOver(1); }).strategy;
    Ordered apart{strategy, whole_.EvaluateBrieflyInBestOrder(strategy)};
    if (joined.buckets.empty()) return apart;
    Ordered with{std::move(joined), {}};
    with.evaluation = whole_.EvaluateBrieflyInBestOrder(with.strategy);
    const bool joins = with.evaluation.feasible() && (!apart.evaluation.feasible() ||
                                                      with.evaluation.time < apart.evaluation.time);
    return joins ? with : apart;
  }

  // What pods were found to do, or data parallelism where that is faster.
  Strategy FastestOfAll(Strategy of_all) {
    Ordered found = InBestOrder(of_all);
    const auto data_parallel = DataParallel(whole_.graph(), whole_.topology());
    if (IsOver(1) || !data_parallel.ok()) return std::move(found.strategy);
    Ordered baseline = InBestOrder(*data_parallel);
    if (!baseline.evaluation.feasible()) return std::move(found.strategy);
    outcome_.baseline = baseline.evaluation.time;
    if (found.evaluation.feasible() && found.evaluation.time <= baseline.evaluation.time) {
      return std::move(found.strategy);
    }
    outcome_.search.origin = outcome_.expert = kBaseline;
    return std::move(baseline.strategy);
  }

  // Whether there is room and time for a step of so many tasks.
  bool MayMake(int64_t tasks) const {
    const int64_t bytes = kBytesOfTask * tasks;
    const bool is_late =
        IsSet(request_.options.stop) || clock_.HasLess(kSecondsOfTask * static_cast<double>(tasks));
    return bytes <= kMostBytes && 2 * bytes <= AvailableMemory(UsableMemory()) && !is_late;
  }

  absl::Status FillPlan() {
    SearchResult& search = outcome_.search;
    ASSIGN_OR_RETURN(EvaluatedStep step, pods_->evaluator().EvaluateBestOrder(search.best));
    ASSIGN_OR_RETURN(Strategy of_all, pods_->OfAllPods(search.best));
    outcome_.pods = PlanOutcome::ByPods{pods_->pods()};
    Plan& plan = outcome_.plan;
    if (MayMake(step.evaluation.tasks * pods_->pods().count)) {
      const Strategy fastest = FastestOfAll(std::move(of_all));
      whole_.DropKept(Bytes(0));
      ASSIGN_OR_RETURN(PlanOutcome whole, PlanAsIs(whole_, fastest, request_.search));
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
    if (!MayMake(tasks_of_one * built.count)) return absl::OkStatus();
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
