#include "planner/collective_choice.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/collective/algorithms.h"
#include "graph/partition/collective_algorithm.h"

namespace partita {
namespace {

// Sizes of buckets that are tried.
constexpr Bytes kBucketBytes[] = {Bytes(64 << 10), Bytes(512 << 10), Bytes(4 << 20),
                                  Bytes(32 << 20), Bytes(128 << 20)};
// Part of its time that data parallelism keeps, at most, where searches are to know of buckets.
constexpr double kKeptByBuckets = 0.99;
// All-reduces of more ranks are compared at the next power of two of elements for each rank:
// pricing one of n ranks takes up to n^2 steps, and so each group of a large machine is priced a few
// times only, and with blocks of one size, for which rounds are alike.
constexpr int kFewRanks = 64;
// All-reduces of more ranks are not by messages between all pairs at once, of which there are too
// many to be the cheapest, and to be priced.
constexpr int kMostOfAllPairs = 512;

class AlgorithmPricer {
 public:
  AlgorithmPricer(const CostModel& model, std::vector<int32_t> node_of_device)
      : model_(model), node_of_device_(std::move(node_of_device)) {}

  std::string Cheapest(const CollectiveToRun& asked) const {
    const Collective compared = Compared(asked.collective);
    const CollectiveToRun collective{compared, asked.dtype, asked.groups};
    std::vector<std::vector<int>> nodes;  // by group
    for (const std::vector<DeviceId>& group : asked.groups) {
      nodes.push_back(NodesOf(group, node_of_device_));
    }
    const auto rows = CollectiveAlgorithms();
    size_t best = rows.size();
    std::optional<TaskCost> least;
    // Those of few steps first: most of the others are dearer after a few of theirs. The later ones
    // of these first: hierarchical ones beat the others between nodes, where those take longest.
    for (bool many_steps : {false, true}) {
      for (size_t k = 0; k < rows.size(); ++k) {
        const size_t r = many_steps ? rows.size() - 1 - k : k;
        if ((rows[r].steps != StepCount::kRanks) != many_steps) continue;
        if (!MayBeCheapest(rows[r], collective.collective)) continue;
        std::optional<TaskCost> to_beat = least;
        if (least.has_value() && r < best) to_beat->time += Nanos(1);
        const auto price = PriceOf(collective, nodes, std::string(rows[r].name), to_beat);
        if (!price.has_value()) continue;
        least = price;
        best = r;
      }
    }
    return best == rows.size() ? "" : std::string(rows[best].name);
  }

 private:
  static bool MayBeCheapest(const CollectiveAlgorithm& row, const Collective& collective) {
    if (!row.kinds.contains(collective.kind) || !row.applicable(collective.ranks)) return false;
    return row.steps != StepCount::kAllPairs || collective.kind != CollectiveKind::kAllReduce ||
           collective.ranks <= kMostOfAllPairs;
  }
  static Collective Compared(const Collective& collective) {
    const int64_t elements = ComparedElements(collective);
    if (elements == collective.total) return collective;
    return MakeAllReduce(collective.ranks, elements, collective.reduction);
  }

  // All groups together: the worst source, the sum of times. Nothing where that does not beat what
  // is given.
  std::optional<TaskCost> PriceOf(const CollectiveToRun& collective,
                                  std::span<const std::vector<int>> nodes, const std::string& row,
                                  const std::optional<TaskCost>& to_beat) const {
    TaskCost sum{.time = Nanos(0), .source = CostSource::kMeasured};
    for (size_t g = 0; g < collective.groups.size(); ++g) {
      const std::vector<DeviceId>& group = collective.groups[g];
      const std::string name = ForNodes(row, nodes[g]);
      TaskCost left;  // what the group has to beat
      if (to_beat.has_value()) {
        left.source = to_beat->source;
        left.time = to_beat->time - sum.time;
      }
      const auto cost =
          model_.CollectiveCost({&collective.collective, name, group, collective.dtype,
                                 to_beat.has_value() ? &left : nullptr});
      if (!cost.has_value() || (to_beat.has_value() && !Beats(*cost, left))) return std::nullopt;
      sum.source = std::max(sum.source, cost->source);
      sum.time += cost->time;
    }
    if (to_beat.has_value() && !Beats(sum, *to_beat)) return std::nullopt;
    return sum;
  }

  const CostModel& model_;
  const std::vector<int32_t> node_of_device_;
};

}  // namespace

int64_t ComparedElements(const Collective& collective) {
  if (collective.kind != CollectiveKind::kAllReduce || collective.ranks <= kFewRanks) {
    return collective.total;
  }
  const int64_t ranks = collective.ranks;
  const int64_t of_rank = std::max<int64_t>(1, (collective.total + ranks - 1) / ranks);
  return ranks * static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(of_rank)));
}

AlgorithmRule CheapestAlgorithm(const CostModel& model, std::vector<int32_t> node_of_device) {
  return [pricer = AlgorithmPricer(model, std::move(node_of_device))](
             const CollectiveToRun& collective) { return pricer.Cheapest(collective); };
}

Strategy WithAlgorithms(Strategy strategy, const TaskGraph& tasks) {
  strategy.algorithms.clear();
  std::map<CollectiveStepId, std::string> of_bucket;  // by first member
  for (const Task& task : tasks.tasks()) {
    const auto* body = std::get_if<CollectiveTask>(&task.body);
    if (body == nullptr) continue;
    const CollectiveStepId id{TensorId(task.key.subject), task.key.step};
    const std::string algorithm = WithoutNodes(body->algorithm);
    if (body->bucket.empty()) {
      strategy.algorithms.push_back({id, algorithm});
    } else {
      of_bucket[id] = algorithm;
    }
  }
  std::sort(strategy.algorithms.begin(), strategy.algorithms.end(),
            [](const AlgorithmChoice& a, const AlgorithmChoice& b) {
              return a.collective < b.collective;
            });
  for (Bucket& bucket : strategy.buckets) bucket.algorithm = of_bucket.at(bucket.members[0]);
  return strategy;
}

std::span<const Bytes> BucketSizes() { return kBucketBytes; }

BucketedStrategy WithBuckets(const Evaluator& evaluator, const Strategy& strategy,
                             const std::function<bool()>& interrupted) {
  Evaluation apart = evaluator.EvaluateBriefly(strategy, kNoCutoff, interrupted);
  return WithBuckets(evaluator, BucketedStrategy{strategy, std::move(apart)}, interrupted);
}

BucketedStrategy WithBuckets(const Evaluator& evaluator, BucketedStrategy best,
                             const std::function<bool()>& interrupted) {
  const Bytes known = best.evaluation.bucket_bytes;
  for (Bytes bytes : kBucketBytes) {
    if (!best.strategy.buckets.empty() || (interrupted && interrupted())) break;
    if (bytes == known) continue;
    const Nanos cutoff = best.evaluation.time;
    Evaluation evaluation = evaluator.EvaluateBriefly(best.strategy, cutoff, interrupted, bytes);
    if (!evaluation.is_within()) continue;
    if (best.evaluation.feasible() && evaluation.time >= cutoff) continue;
    best.evaluation = std::move(evaluation);
  }
  if (best.evaluation.bucket_bytes == Bytes(0)) return best;
  auto joined = evaluator.WithBucketsUpTo(best.strategy, best.evaluation.bucket_bytes);
  if (joined.ok()) best.strategy = *std::move(joined);
  return best;
}

Bytes BucketBytesForSearches(const BucketedStrategy& data_parallel, Nanos apart) {
  const Evaluation& bucketed = data_parallel.evaluation;
  const bool saves = static_cast<double>(bucketed.time.value()) <
                     kKeptByBuckets * static_cast<double>(apart.value());
  return saves ? bucketed.bucket_bytes : Bytes(0);
}

}  // namespace partita
