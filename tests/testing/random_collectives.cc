#include "tests/testing/random_collectives.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "graph/collective/algorithms.h"
#include "graph/support/check.h"

namespace partita {
namespace {

class CollectiveChoices {
 public:
  CollectiveChoices(const Graph& graph, Strategy strategy, const PartitionOptions& options,
                    std::mt19937_64& random)
      : graph_(graph), strategy_(std::move(strategy)), options_(options), random_(random) {
    auto tasks = Partition(graph, strategy_, options);
    CHECK(tasks.ok()) << tasks.status();
    tasks_ = *std::move(tasks);
  }

  Strategy Run() && {
    FindCollectives();
    AddBuckets();
    for (const auto& [id, task] : collectives_) AddAlgorithm(id, *task);
    std::sort(strategy_.algorithms.begin(), strategy_.algorithms.end(),
              [](const AlgorithmChoice& a, const AlgorithmChoice& b) {
                return a.collective < b.collective;
              });
    return std::move(strategy_);
  }

 private:
  using Kind = std::tuple<std::vector<DeviceId>, DType, Reduction>;

  bool OneIn(uint64_t n) { return random_() % n == 0; }

  void FindCollectives() {
    for (const Task& task : tasks_.tasks()) {
      const auto* body = std::get_if<CollectiveTask>(&task.body);
      if (body != nullptr) collectives_[{TensorId(task.key.subject), task.key.step}] = body;
    }
  }

  // Joins most of the all-reduces that fit, in any order.
  void AddBuckets() {
    std::map<Kind, std::vector<CollectiveStepId>> alike;
    for (const auto& [id, task] : collectives_) {
      if (task->collective.kind != CollectiveKind::kAllReduce || task->has_replicas) continue;
      alike[{task->group, task->dtype, task->collective.reduction}].push_back(id);
    }
    for (auto& [kind, ids] : alike) {
      std::shuffle(ids.begin(), ids.end(), random_);
      while (ids.size() > 1) ids = AddBucketOf(ids);
    }
  }

  // Joins the first with those of the others that fit, but for some. Returns those that do not.
  std::vector<CollectiveStepId> AddBucketOf(const std::vector<CollectiveStepId>& ids) {
    Bucket bucket;
    std::vector<CollectiveStepId> others;
    for (const CollectiveStepId& id : ids) {
      if (OneIn(16)) continue;
      bucket.members.push_back(id);
      if (bucket.members.size() == 1 || Fits(bucket)) continue;
      bucket.members.pop_back();
      others.push_back(id);
    }
    if (bucket.members.size() > 1) AddBucket(std::move(bucket));
    return others;
  }

  bool Fits(const Bucket& bucket) {
    strategy_.buckets.push_back(bucket);
    const bool fits = Partition(graph_, strategy_, options_).ok();
    strategy_.buckets.pop_back();
    return fits;
  }

  void AddBucket(Bucket bucket) {
    for (const CollectiveStepId& member : bucket.members) collectives_.erase(member);
    const auto rows = CollectiveAlgorithms();
    const CollectiveAlgorithm& row = rows[random_() % rows.size()];
    if (row.kinds.contains(CollectiveKind::kAllReduce)) bucket.algorithm = std::string(row.name);
    strategy_.buckets.push_back(std::move(bucket));
  }

  // Groups that form the same sums do it in one way.
  void AddAlgorithm(const CollectiveStepId& id, const CollectiveTask& task) {
    const auto rows = CollectiveAlgorithms();
    const CollectiveAlgorithm& row = rows[random_() % rows.size()];
    std::string name(row.name);
    if (OneIn(2) || !CheckDoes(name, task.collective).ok()) name.clear();
    if (task.has_replicas) {
      name = of_replicas_.try_emplace({id.tensor, ToString(task.collective)}, name).first->second;
    }
    if (!name.empty()) strategy_.algorithms.push_back({id, name});
  }

  const Graph& graph_;
  Strategy strategy_;
  const PartitionOptions& options_;
  std::mt19937_64& random_;
  TaskGraph tasks_;
  std::map<CollectiveStepId, const CollectiveTask*> collectives_;  // outside of buckets
  std::map<std::pair<TensorId, std::string>, std::string> of_replicas_;
};

}  // namespace

Strategy WithRandomCollectives(const Graph& graph, Strategy strategy,
                               const PartitionOptions& options, std::mt19937_64& random) {
  return CollectiveChoices(graph, std::move(strategy), options, random).Run();
}

}  // namespace partita
