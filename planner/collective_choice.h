#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "cost_model/cost_model.h"
#include "graph/graph.h"
#include "graph/parallel/strategy.h"
#include "graph/partition/partition.h"
#include "graph/task/task_graph.h"
#include "planner/evaluator.h"

namespace partita {

// Choices for collectives by price.

// The rule by which a collective takes the algorithm that is cheapest for all of its groups
// together, at ComparedElements. A price that was measured is not given up for one that was not
// (CostSource); ties go to the earlier row of CollectiveAlgorithms(). The model outlives the rule.
// `node_of_device`: as in PartitionOptions.
AlgorithmRule CheapestAlgorithm(const CostModel& model, std::vector<int32_t> node_of_device);

// The elements at which that rule compares algorithms for a collective: its own, and of all-reduces
// of more than 64 ranks the next power of two for each rank.
int64_t ComparedElements(const Collective& collective);

// The strategy with every algorithm that its tasks run by: without any rule Partition makes the
// same tasks of it. `tasks`: what Partition made of it.
Strategy WithAlgorithms(Strategy strategy, const TaskGraph& tasks);

// Sizes of buckets that WithBuckets tries.
std::span<const Bytes> BucketSizes();

// A strategy with its buckets, and its brief evaluation.
struct BucketedStrategy {
  Strategy strategy;
  Evaluation evaluation;
};

// The strategy with buckets of small all-reduces (BucketRule). Of several sizes, and no buckets at
// all, the one whose step is the fastest. A strategy that has buckets keeps them, and what it names
// an algorithm for stays by itself. Once `interrupted`, which may be empty, is true, no further size
// is tried; the evaluation is kInterrupted where that was before the strategy's own was known.
BucketedStrategy WithBuckets(const Evaluator& evaluator, const Strategy& strategy,
                             const std::function<bool()>& interrupted = nullptr);
// The same for a strategy that is evaluated, perhaps with buckets (Evaluation::bucket_bytes), which
// are not in it yet.
BucketedStrategy WithBuckets(const Evaluator& evaluator, BucketedStrategy best,
                             const std::function<bool()>& interrupted = nullptr);

// The size of buckets with which searches are to compare strategies: that of data parallelism, where
// they save enough to decide which strategy is the fastest; otherwise 0. `apart`: its time without.
Bytes BucketBytesForSearches(const BucketedStrategy& data_parallel, Nanos apart);

}  // namespace partita
