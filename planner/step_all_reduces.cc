#include "planner/step_all_reduces.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "graph/partition/collective_algorithm.h"

namespace partita {
namespace {

// Whether the task has to wait for one of an operator.
bool Waits(PartsByOp parts, const Fragment& fragment, TaskId task) {
  return std::any_of(fragment.edges.begin(), fragment.edges.end(), [&](const Fragment::Edge& edge) {
    if (edge.task != task) return false;
    const std::span<const Part> before = parts[edge.op.index()];
    return std::ranges::find(before, edge.device, &Part::device) != before.end();
  });
}

}  // namespace

StepAllReduces::StepAllReduces(const FragmentCache& cache)
    : cache_(cache), rule_(cache.graph(), cache.places()), of_links_(cache.chain().size()) {}

void StepAllReduces::Find(const StepFragments& step, const Strategy& strategy,
                          NumberOfTask number_of) {
  all_reduces_.clear();
  places_.clear();
  for (size_t link = 0; link < of_links_.size(); ++link) {
    const ChainLink& of = cache_.chain()[link];
    const bool has_fragment = of.is_tensor && step.tensors[static_cast<size_t>(of.id)] != nullptr;
    if (has_fragment) FindOfLink(step, strategy, link, number_of);
  }
}

void StepAllReduces::FindOfLink(const StepFragments& step, const Strategy& strategy, size_t link,
                                NumberOfTask number_of) {
  const ChainLink& of = cache_.chain()[link];
  const TensorId tensor(of.id);
  const Fragment& fragment = step.FragmentOf(of);
  OfLink& known = of_links_[link];
  if (std::exchange(known.fragment, fragment.number) != fragment.number) {
    known.all_reduces = rule_.JoinableOf(tensor, fragment.graph);
  }
  for (TaskId task : known.all_reduces) {
    const Task& one = fragment.graph.task(task);
    const CollectiveStepId id{tensor, one.key.step};
    const bool is_chosen =
        std::any_of(strategy.algorithms.begin(), strategy.algorithms.end(),
                    [&](const AlgorithmChoice& choice) { return choice.collective == id; });
    if (is_chosen || Waits(cache_.parts(), fragment, task)) break;
    const int32_t number = number_of(link, task);
    if (number < 0) continue;
    all_reduces_.push_back({id, static_cast<int32_t>(link), &std::get<CollectiveTask>(one.body)});
    places_.push_back({link, number});
  }
}

Bucket StepAllReduces::BucketOf(std::span<const int32_t> members) const {
  Bucket bucket;
  for (int32_t m : members) bucket.members.push_back(one(m).id);
  return bucket;
}

CollectiveTask StepAllReduces::TaskOf(std::span<const int32_t> members) const {
  int64_t total = 0;
  for (int32_t m : members) total += one(m).task->collective.total;
  return TaskOf(*one(members[0]).task, total);
}

CollectiveTask StepAllReduces::TaskOf(const CollectiveTask& first, int64_t total) const {
  const Collective& of = first.collective;
  CollectiveTask task{.group = first.group,
                      .collective = MakeAllReduce(of.ranks, total, of.reduction),
                      .dtype = first.dtype};
  const PartitionOptions& options = cache_.options();
  task.algorithm = ChooseAlgorithm(task, {}, {"", options.algorithm, options.node_of_device});
  return task;
}

}  // namespace partita
