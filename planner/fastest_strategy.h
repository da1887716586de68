#pragma once

#include <atomic>
#include <vector>

#include "planner/collective_choice.h"
#include "planner/evaluator.h"
#include "planner/plan_clock.h"
#include "planner/search/search_algorithm.h"

namespace partita {

// The choice between what a search found and what it began with, in the buckets and the order that
// each is best in: a search compares in one order, and without most sizes of buckets.

// The expert that plans are compared with.
inline constexpr char kBaseline[] = "data_parallel";

// A strategy with its buckets, perhaps without any, and its evaluation in its best order, which is
// invalid where the strategy is.
struct OrderedStrategy {
  BucketedStrategy bucketed;
  Evaluation in_best_order;
};
// With its buckets, which are best in the order of searches, or without: where these save little, it may
// be faster so in another order.
OrderedStrategy InBestOrder(const Evaluator& evaluator, BucketedStrategy bucketed);

// Data parallelism, with which a plan is compared.
struct Baseline {
  const NamedStrategy* start = nullptr;  // null where no start is it
  Nanos apart;                           // its time without buckets
  OrderedStrategy ordered;
  double seconds = 0;  // that it took to find
};

// The first start of that name is the expert's; others may have come from it. It is evaluated
// whatever the time; no further size of buckets is tried once a part of the clock's limit has passed.
// The starts outlive it.
Baseline BaselineAmong(const Evaluator& evaluator, const std::vector<NamedStrategy>& starts,
                       const PlanClock& clock, const std::atomic<bool>* stop);

// Returns what a search found, with its buckets: a start, or another strategy that the search found,
// takes the place of the best where it is faster once all-reduces are in the best buckets and in the
// best order; those besides data parallelism as long as time for the plan is left.
BucketedStrategy TakeFastest(const SearchProblem& problem, const Baseline& baseline,
                             const PlanClock& clock, const std::atomic<bool>* stop,
                             SearchResult& found);

}  // namespace partita
