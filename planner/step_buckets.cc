#include "planner/step_buckets.h"

#include <utility>

#include "cost_model/task_costs.h"
#include "graph/support/heap_bytes.h"

namespace partita {
namespace {

// Prices that are kept until there are too many: as few as a search looks at again.
constexpr Bytes kMostPriced(int64_t{4} << 20);

}  // namespace

StepBuckets::StepBuckets(const FragmentCache& cache, const FlatteningRules& rules,
                         ResourceLister& lister)
    : rules_(rules), lister_(lister), all_reduces_(cache) {}

void StepBuckets::Find(const StepFragments& step, const Strategy& strategy, Bytes most,
                       StepAllReduces::NumberOfTask number_of) {
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
  all_reduces_.Find(step, strategy, number_of);
  members_ = all_reduces_.BucketsOf(most);
  for (const std::vector<int32_t>& members : members_) {
    JoinedTasks& joined = joined_.emplace_back();
    int64_t total = 0;
    for (int32_t m : members) {
      total += all_reduces_.one(m).task->collective.total;
      const StepAllReduces::Place& place = all_reduces_.place(m);
      joined.members.push_back({place.link, static_cast<size_t>(place.number)});
    }
    const Priced& priced = PriceOf(*all_reduces_.one(members[0]).task, total);
    joined.duration = priced.cost.time;
    joined.resources = priced.resources;
    are_regular_ &= priced.is_known && IsRegular(priced.cost);
    tasks_less_ += static_cast<int64_t>(members.size()) - 1;
  }
}

const StepBuckets::Priced& StepBuckets::PriceOf(const CollectiveTask& first, int64_t total) {
  const Reduction reduction = first.collective.reduction;
  const auto [it, is_new] = priced_.try_emplace({first.group, first.dtype, reduction, total});
  if (!is_new) return it->second;
  Price(all_reduces_.TaskOf(first, total), it->second);
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
  std::erase_if(priced.resources, [this](int32_t r) { return !rules_.pods->IsHeld(r); });
}

std::vector<Bucket> StepBuckets::buckets() const {
  std::vector<Bucket> buckets;
  for (const std::vector<int32_t>& members : members_) {
    buckets.push_back(all_reduces_.BucketOf(members));
  }
  return buckets;
}

}  // namespace partita
