#include "planner/step_buckets.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "cost_model/task_costs.h"
#include "graph/partition/collective_algorithm.h"
#include "graph/support/heap_bytes.h"

namespace partita {
namespace {

// Prices that are kept until there are too many: as few as a search looks at again.
constexpr Bytes kMostPriced(int64_t{4} << 20);

// Whether the task has to wait for one of an operator.
bool Waits(const StepFragments& step, const Fragment& fragment, TaskId task) {
  return std::any_of(fragment.edges.begin(), fragment.edges.end(), [&](const Fragment::Edge& edge) {
    if (edge.task != task) return false;
    const auto tasks = step.operators[edge.op.index()]->graph.tasks();
    return std::any_of(tasks.begin(), tasks.end(), [&](const Task& before) {
      return std::get<ComputeTask>(before.body).device == edge.device;
    });
  });
}

}  // namespace

StepBuckets::StepBuckets(const FragmentCache& cache, const FlatteningRules& rules,
                         ResourceLister& lister)
    : cache_(cache),
      rules_(rules),
      lister_(lister),
      rule_(cache.graph(), cache.places()),
      of_links_(cache.chain().size()) {}

void StepBuckets::Find(const StepFragments& step, const Strategy& strategy, Bytes most,
                       NumberOfTask number_of) {
  most_ = most;
  joined_.clear();
  members_.clear();
  are_regular_ = true;
  tasks_less_ = 0;
  if (most == Bytes(0)) return;
  if (of_priced_ > kMostPriced) {
    priced_.clear();
    of_priced_ = Bytes(0);
  }
  FindAllReduces(step, strategy, number_of);
  members_ = rule_.BucketsOf(all_reduces_, most);
  for (const std::vector<int32_t>& members : members_) {
    JoinedTasks& joined = joined_.emplace_back();
    int64_t total = 0;
    for (int32_t m : members) {
      total += all_reduces_[static_cast<size_t>(m)].task->collective.total;
      joined.members.push_back(places_[static_cast<size_t>(m)]);
    }
    const Priced& priced = PriceOf(*all_reduces_[static_cast<size_t>(members[0])].task, total);
    joined.duration = priced.cost.time;
    joined.resources = priced.resources;
    are_regular_ &= priced.is_known && IsRegular(priced.cost);
    tasks_less_ += static_cast<int64_t>(members.size()) - 1;
  }
}

// Those of other pods are alike, and left out.
void StepBuckets::FindAllReduces(const StepFragments& step, const Strategy& strategy,
                                 NumberOfTask number_of) {
  all_reduces_.clear();
  places_.clear();
  for (size_t link = 0; link < of_links_.size(); ++link) {
    const ChainLink& of = cache_.chain()[link];
    if (!of.is_tensor) continue;
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
      if (is_chosen || Waits(step, fragment, task)) break;
      const int32_t number = number_of(link, task);
      if (number < 0) continue;
      all_reduces_.push_back({id, static_cast<int32_t>(link), &std::get<CollectiveTask>(one.body)});
      places_.push_back({link, static_cast<size_t>(number)});
    }
  }
}

const StepBuckets::Priced& StepBuckets::PriceOf(const CollectiveTask& first, int64_t total) {
  const Reduction reduction = first.collective.reduction;
  const auto [it, is_new] = priced_.try_emplace({first.group, first.dtype, reduction, total});
  if (!is_new) return it->second;
  CollectiveTask task{.group = first.group,
                      .collective = MakeAllReduce(first.collective.ranks, total, reduction),
                      .dtype = first.dtype};
  const PartitionOptions& options = cache_.options();
  task.algorithm = ChooseAlgorithm(task, {}, {"", options.algorithm, options.node_of_device});
  Price(std::move(task), it->second);
  of_priced_ += Bytes(static_cast<int64_t>(sizeof(*it)) +
                      HeapBytesOf(std::get<0>(it->first), it->second.resources));
  return it->second;
}

void StepBuckets::Price(const TaskBody& body, Priced& priced) {
  if (rules_.pods == nullptr) {
    priced.cost = PriceCommunication(body, rules_.model);
    lister_.List(body, priced.resources);
    return;
  }
  const auto seen = rules_.pods->CommunicationOf(body);
  priced.is_known = seen.ok() && seen->has_value();
  if (!priced.is_known) return;
  priced.cost = (*seen)->cost;
  lister_.List((*seen)->body, priced.resources);
  std::erase_if(priced.resources, [this](int32_t r) { return !rules_.pods->IsOwn(r); });
}

std::vector<Bucket> StepBuckets::buckets() const {
  std::vector<Bucket> buckets;
  for (const std::vector<int32_t>& members : members_) {
    Bucket& bucket = buckets.emplace_back();
    for (int32_t m : members) {
      bucket.members.push_back(all_reduces_[static_cast<size_t>(m)].id);
    }
  }
  return buckets;
}

}  // namespace partita
