#include "planner/fastest_strategy.h"

#include <algorithm>
#include <utility>

#include "graph/support/stop_flag.h"
#include "planner/least_loads.h"

namespace partita {
namespace {

// The part of a time limit until which buckets of data parallelism may take.
constexpr double kBaselineShare = 0.4;
// Time that a plan takes over that which data parallelism with its buckets and its best order took:
// as measured for models of up to 100,000 tasks.
constexpr double kPlanOverBaseline = 3.3;
// Starts that take so many times the best without buckets get none: those save starts of
// all-reduces, which are not half of a step that could win. Data parallelism gets them anyway.
constexpr int64_t kBeyondBuckets = 2;
// Buckets that save less than this part may be slower than none in the best order.
constexpr double kSavedInAnyOrder = 0.03;

// Estimates how long a strategy of so many tasks takes, over that which data parallelism took.
double OverBaseline(const Baseline& baseline, int64_t tasks) {
  const int64_t of_baseline = baseline.ordered.bucketed.evaluation.tasks;
  if (of_baseline == 0) return 1;
  return std::max(1.0, static_cast<double>(tasks) / static_cast<double>(of_baseline));
}

// The starts, and what else the search found, each strategy once, without the best.
std::vector<const NamedStrategy*> OthersOf(const SearchProblem& problem,
                                           const SearchResult& found) {
  std::vector<const NamedStrategy*> others;
  const auto add = [&](const NamedStrategy& one) {
    const bool is_known =
        std::any_of(others.begin(), others.end(),
                    [&](const NamedStrategy* other) { return other->strategy == one.strategy; });
    if (!is_known && one.strategy != found.best) others.push_back(&one);
  };
  for (const NamedStrategy& start : problem.starts) add(start);
  for (const FoundStrategy& one : found.by_origin) add(one.found);
  return others;
}

}  // namespace

OrderedStrategy InBestOrder(const Evaluator& evaluator, BucketedStrategy bucketed) {
  if (bucketed.evaluation.verdict == Evaluation::Verdict::kInvalid) {
    return {bucketed, bucketed.evaluation};
  }
  OrderedStrategy ordered{std::move(bucketed), {}};
  ordered.in_best_order = evaluator.EvaluateBrieflyInBestOrder(ordered.bucketed.strategy);
  if (ordered.bucketed.strategy.buckets.empty()) return ordered;
  BucketedStrategy apart{ordered.bucketed.strategy, {}};
  apart.strategy.buckets.clear();
  const Nanos most = TimesOf(ordered.bucketed.evaluation.time, 1 / (1 - kSavedInAnyOrder));
  apart.evaluation = evaluator.EvaluateBriefly(apart.strategy, most);
  if (!apart.evaluation.is_within()) return ordered;
  Evaluation without = evaluator.EvaluateBrieflyInBestOrder(apart.strategy);
  const bool is_faster = without.feasible() && (!ordered.in_best_order.feasible() ||
                                                without.time < ordered.in_best_order.time);
  return is_faster ? OrderedStrategy{std::move(apart), std::move(without)} : ordered;
}

Baseline BaselineAmong(const Evaluator& evaluator, const std::vector<NamedStrategy>& starts,
                       const PlanClock& clock, const std::atomic<bool>* stop) {
  Baseline baseline;
  for (const NamedStrategy& start : starts) {
    if (start.name != kBaseline) continue;
    const double begin = clock.Seconds();
    baseline.start = &start;
    const Evaluation apart = evaluator.EvaluateBriefly(start.strategy, kNoCutoff);
    baseline.apart = apart.time;
    baseline.ordered = InBestOrder(
        evaluator, WithBuckets(evaluator, BucketedStrategy{start.strategy, apart},
                               [&] { return clock.IsPast(kBaselineShare) || IsSet(stop); }));
    baseline.seconds = clock.Seconds() - begin;
    break;
  }
  return baseline;
}

BucketedStrategy TakeFastest(const SearchProblem& problem, const Baseline& baseline,
                             const PlanClock& clock, const std::atomic<bool>* stop,
                             SearchResult& found) {
  const Evaluator& evaluator = problem.evaluator;
  const double of_plan = kPlanOverBaseline * OverBaseline(baseline, found.evaluation.tasks);
  double more = 0;  // time of what cannot be interrupted, over the baseline's
  const auto is_late = [&] { return clock.HasLess((of_plan + more) * baseline.seconds); };
  const auto is_over = [&] { return is_late() || IsSet(stop); };
  OrderedStrategy best = InBestOrder(
      evaluator, WithBuckets(evaluator, BucketedStrategy{found.best, found.evaluation}, is_over));
  const auto take = [&](const NamedStrategy& named, OrderedStrategy other) {
    const Evaluation& own = best.in_best_order;
    if (!other.in_best_order.feasible()) return;
    if (own.feasible() && other.in_best_order.time >= own.time) return;
    best = std::move(other);
    found.evaluation = best.bucketed.evaluation;
    found.best = named.strategy;
    found.origin = named.name;
    found.walked_all = found.locally_optimal = false;
  };
  if (baseline.start != nullptr) take(*baseline.start, baseline.ordered);
  for (const NamedStrategy* other : OthersOf(problem, found)) {
    if (is_late()) break;
    if (other == baseline.start) continue;
    // Without buckets all are compared, even when planning is to stop.
    const Evaluation& own = best.bucketed.evaluation;
    const Nanos cutoff = own.is_within() ? own.time * kBeyondBuckets : kNoCutoff;
    const Evaluation apart = evaluator.EvaluateBriefly(other->strategy, cutoff, is_late);
    if (!apart.is_within()) continue;
    more = OverBaseline(baseline, apart.tasks);
    const bool is_too_long = is_over();
    more = 0;
    BucketedStrategy bucketed{other->strategy, apart};
    if (!is_too_long) bucketed = WithBuckets(evaluator, std::move(bucketed), is_over);
    take(*other, InBestOrder(evaluator, std::move(bucketed)));
  }
  return std::move(best.bucketed);
}

}  // namespace partita
