#include "planner/pods/pod_collectives.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "graph/partition/collective_algorithm.h"
#include "graph/partition/fragment_cache.h"
#include "graph/support/status_macros.h"
#include "planner/step_all_reduces.h"

namespace partita {
namespace {

PartitionOptions OptionsOf(const PodProblem& pods) {
  PartitionOptions options = pods.whole().partition_options();
  options.algorithm = pods.evaluator().pod_view()->OfAllDevices();
  return options;
}

// Those whose exchanges in the step of the built pods, of which the first is evaluated, have any.
absl::StatusOr<absl::flat_hash_set<TensorId>> TensorsWithCollectives(const PodProblem& pods,
                                                                     Strategy of_pod) {
  of_pod.buckets.clear();
  ASSIGN_OR_RETURN(const auto collectives, pods.evaluator().CollectivesOf(of_pod));
  absl::flat_hash_set<TensorId> tensors;
  for (const Evaluator::CollectiveOfStep& one : collectives) tensors.insert(one.id.tensor);
  return tensors;
}

std::vector<Bucket> BucketsOf(const StepAllReduces& all_reduces, Bytes most) {
  std::vector<Bucket> buckets;
  for (const std::vector<int32_t>& members : all_reduces.BucketsOf(most)) {
    Bucket& bucket = buckets.emplace_back(all_reduces.BucketOf(members));
    bucket.algorithm = WithoutNodes(all_reduces.TaskOf(members).algorithm);
  }
  return buckets;
}

// By collective; of those that are in no bucket.
std::vector<AlgorithmChoice> AlgorithmsOf(const StepFragments& step,
                                          std::span<const Bucket> buckets) {
  std::vector<CollectiveStepId> joined;
  for (const Bucket& bucket : buckets) {
    joined.insert(joined.end(), bucket.members.begin(), bucket.members.end());
  }
  std::sort(joined.begin(), joined.end());
  std::vector<AlgorithmChoice> algorithms;
  for (size_t t = 0; t < step.tensors.size(); ++t) {
    if (step.tensors[t] == nullptr) continue;
    for (const TensorFragment& fragment : step.tensors[t]->groups) {
      for (const Task& task : fragment.graph.tasks()) {
        const auto* body = std::get_if<CollectiveTask>(&task.body);
        if (body == nullptr) continue;
        const CollectiveStepId id{TensorId(static_cast<int32_t>(t)), task.key.step};
        if (std::binary_search(joined.begin(), joined.end(), id)) continue;
        algorithms.push_back({id, WithoutNodes(body->algorithm)});
      }
    }
  }
  std::ranges::sort(algorithms, {}, &AlgorithmChoice::collective);
  return algorithms;
}

}  // namespace

absl::StatusOr<std::optional<Strategy>> OfAllPodsWithCollectives(
    const PodProblem& pods, const BucketedStrategy& of_pod,
    const std::function<bool()>& interrupted) {
  ASSIGN_OR_RETURN(Strategy of_all, pods.OfAllPods(of_pod.strategy));
  ASSIGN_OR_RETURN(const auto tensors, TensorsWithCollectives(pods, of_pod.strategy));
  FragmentCache cache(pods.whole().graph(), OptionsOf(pods), FragmentCache::Use::kExchanges);
  StepFragments step;
  ASSIGN_OR_RETURN(const bool is_found, cache.Find(of_all, step, interrupted));
  if (!is_found) return std::nullopt;
  for (FragmentCache::Missing& missing : cache.missing()) {
    const bool has_any = std::any_of(missing.tensors.begin(), missing.tensors.end(),
                                     [&](TensorId id) { return tensors.contains(id); });
    if (!has_any) continue;
    if (interrupted && interrupted()) return std::nullopt;
    RETURN_IF_ERROR(cache.Build(missing, cache.Solve(missing, of_all), of_all, step));
    cache.KeepCollectives(missing.tensors[0]);
  }
  if (!of_pod.strategy.buckets.empty()) {
    StepAllReduces all_reduces(cache);
    all_reduces.Find(step, of_all, [](size_t, TaskId task) { return task.value(); });
    of_all.buckets = BucketsOf(all_reduces, of_pod.evaluation.bucket_bytes);
  }
  of_all.algorithms = AlgorithmsOf(step, of_all.buckets);
  return of_all;
}

}  // namespace partita
