#include "planner/collective_choice.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "graph/collective/algorithms.h"
#include "graph/partition/collective_algorithm.h"

namespace partita {
namespace {

// Largest buckets that are tried, in bytes.
constexpr int64_t kBucketBytes[] = {64 << 10, 512 << 10, 4 << 20, 32 << 20};
// All-reduces of more ranks are compared at the next power of two of elements: pricing one of n
// ranks takes up to n^2 steps, and so each group of a large machine is priced a few times only.
constexpr int kFewRanks = 64;

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
    // Those of few steps first: most of the others are dearer after a few of theirs.
    for (bool many_steps : {false, true}) {
      for (size_t r = 0; r < rows.size(); ++r) {
        if (rows[r].many_steps != many_steps) continue;
        if (!rows[r].kinds.contains(collective.collective.kind)) continue;
        if (!rows[r].applicable(collective.collective.ranks)) continue;
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

// All-reduces of one graph that may be joined.
class BucketMaker {
 public:
  // `collectives`: those of the strategy's step; they outlive the maker.
  BucketMaker(const Graph& graph, const Strategy& strategy,
              std::span<const Evaluator::CollectiveOfStep> collectives)
      : graph_(graph) {
    std::set<CollectiveStepId> chosen;
    for (const AlgorithmChoice& choice : strategy.algorithms) chosen.insert(choice.collective);
    for (const Evaluator::CollectiveOfStep& one : collectives) {
      if (!one.waits && !chosen.contains(one.id)) Add(one.id, one.task);
    }
  }

  std::vector<Bucket> BucketsOf(int64_t most_bytes) const {
    std::map<Kind, Open> open;
    std::vector<Open> closed;
    for (const Member& member : members_) {
      if (member.bytes() > most_bytes) continue;
      Open& bucket = open[member.kind()];
      if (!bucket.members.empty() && !Joins(bucket, member, most_bytes)) {
        closed.push_back(std::exchange(bucket, {}));
      }
      Join(member, bucket);
    }
    for (auto& [kind, bucket] : open) closed.push_back(std::move(bucket));
    std::vector<Bucket> buckets;
    for (const Open& bucket : closed) {
      if (bucket.members.size() > 1) buckets.push_back({bucket.members, ""});
    }
    std::sort(buckets.begin(), buckets.end(),
              [](const Bucket& a, const Bucket& b) { return a.members[0] < b.members[0]; });
    return buckets;
  }

 private:
  // What the all-reduces of a bucket have in common; the last: whether only updates read them, so
  // that what backward waits for does not wait for them.
  using Kind = std::tuple<std::vector<DeviceId>, DType, Reduction, bool>;
  struct Member {
    CollectiveStepId id;
    const CollectiveTask* task = nullptr;
    OpId made, read;  // the last operator that makes the tensor; the first that reads it
    bool is_for_update = false;
    int64_t bytes() const { return task->collective.total * SizeOf(task->dtype); }
    Kind kind() const {
      return {task->group, task->dtype, task->collective.reduction, is_for_update};
    }
  };
  // A bucket that may take more.
  struct Open {
    std::vector<CollectiveStepId> members;
    int64_t total = 0;  // elements
    OpId read;          // the first operator that reads a member
  };

  void Add(const CollectiveStepId& id, const CollectiveTask& task) {
    if (task.collective.kind != CollectiveKind::kAllReduce || task.has_replicas ||
        task.collective.total == 0) {
      return;
    }
    const auto made = graph_.producers(id.tensor), read = graph_.consumers(id.tensor);
    if (made.empty() || read.empty()) return;
    const OpId first = *std::min_element(read.begin(), read.end());
    members_.push_back({id, &task, *std::max_element(made.begin(), made.end()), first,
                        graph_.op(first).anchor == kNoOp});
  }

  bool Joins(const Open& bucket, const Member& member, int64_t most_bytes) const {
    const int64_t total = bucket.total + member.task->collective.total;
    if (total * SizeOf(member.task->dtype) > most_bytes) return false;
    if (std::min(bucket.read, member.read) <= member.made) return false;
    // One of a tensor: its steps follow each other.
    return std::none_of(bucket.members.begin(), bucket.members.end(),
                        [&](const auto& id) { return id.tensor == member.id.tensor; });
  }

  static void Join(const Member& member, Open& bucket) {
    bucket.read = bucket.members.empty() ? member.read : std::min(bucket.read, member.read);
    bucket.members.push_back(member.id);
    bucket.total += member.task->collective.total;
  }

  const Graph& graph_;
  std::vector<Member> members_;
};

}  // namespace

int64_t ComparedElements(const Collective& collective) {
  if (collective.kind != CollectiveKind::kAllReduce || collective.ranks <= kFewRanks) {
    return collective.total;
  }
  const auto total = static_cast<uint64_t>(std::max<int64_t>(1, collective.total));
  return static_cast<int64_t>(std::bit_ceil(total));
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

BucketedStrategy WithBuckets(const Evaluator& evaluator, const Strategy& strategy,
                             const std::function<bool()>& interrupted, const Evaluation* known) {
  const auto is_over = [&] { return interrupted && interrupted(); };
  const auto evaluated = [&] {
    if (known != nullptr) return BucketedStrategy{strategy, *known};
    return BucketedStrategy{strategy, evaluator.EvaluateBriefly(strategy, kNoCutoff, is_over)};
  };
  if (!strategy.buckets.empty() || is_over()) return evaluated();
  BucketedStrategy best = evaluated();
  if (is_over()) return best;
  const auto collectives = evaluator.CollectivesOf(strategy);
  if (!collectives.ok()) return best;
  const BucketMaker maker(evaluator.graph(), strategy, *collectives);
  std::vector<Bucket> last;
  for (int64_t bytes : kBucketBytes) {
    if (is_over()) break;
    Strategy joined = strategy;
    joined.buckets = maker.BucketsOf(bytes);
    if (joined.buckets.empty() || joined.buckets == last) continue;
    last = joined.buckets;
    Evaluation evaluation = evaluator.EvaluateBriefly(joined, best.evaluation.time, is_over);
    if (!evaluation.feasible() || evaluation.peak.empty()) continue;
    if (best.evaluation.feasible() && evaluation.time >= best.evaluation.time) continue;
    best = {std::move(joined), std::move(evaluation)};
  }
  return best;
}

}  // namespace partita
