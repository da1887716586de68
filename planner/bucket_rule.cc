#include "planner/bucket_rule.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace partita {

// What the all-reduces of a bucket have in common.
struct BucketRule::Kind {
  const CollectiveTask* task = nullptr;
  bool is_for_update = false;

  bool operator<(const Kind& other) const {
    const auto key = [](const Kind& kind) {
      const CollectiveTask& t = *kind.task;
      return std::tie(kind.is_for_update, t.dtype, t.collective.reduction, t.group);
    };
    return key(*this) < key(other);
  }
};

// A bucket that may take more.
struct BucketRule::Open {
  int32_t number = 0;  // tells the buckets of a step apart
  std::vector<int32_t> members;
  Bytes bytes;
  int32_t read = 0;  // place of the first operator that reads a member
};

BucketRule::BucketRule(const Graph& graph, const ChainPlaces& places) {
  for (const Tensor& tensor : graph.tensors()) {
    Facts& facts = facts_.emplace_back();
    const auto readers = graph.consumers(tensor.id);
    if (graph.producers(tensor.id).empty() || readers.empty()) continue;
    const OpId first = *std::min_element(readers.begin(), readers.end());
    facts.read = places.of_op[first.index()];
    facts.is_for_update = graph.op(first).anchor == kNoOp;
  }
}

std::vector<TaskId> BucketRule::JoinableOf(TensorId tensor, const TaskGraph& exchange) const {
  std::vector<TaskId> tasks;
  if (facts_[tensor.index()].read < 0) return tasks;
  std::vector<bool> is_used(static_cast<size_t>(exchange.devices()), false);
  for (const Task& task : exchange.tasks()) {
    const auto* body = std::get_if<CollectiveTask>(&task.body);
    const bool is_next = tasks.empty() || task.id.value() == tasks.back().value() + 1;
    const bool may_join = body != nullptr && is_next && MayJoin(*body) &&
                          std::none_of(body->group.begin(), body->group.end(),
                                       [&](DeviceId device) { return is_used[device.index()]; });
    if (!may_join) {
      if (tasks.empty()) continue;
      break;
    }
    tasks.push_back(task.id);
    for (DeviceId device : body->group) is_used[device.index()] = true;
  }
  return tasks;
}

// Until what stays by itself stands between no two of a link that join: a bucket of the later one could
// come before that of the earlier one, and before what is between them.
std::vector<std::vector<int32_t>> BucketRule::BucketsOf(
    std::span<const AllReduceOfStep> all_reduces, Bytes most) const {
  std::vector<char> stays(all_reduces.size(), 0);
  for (size_t k = 0; k < stays.size(); ++k) stays[k] = all_reduces[k].bytes() > most;
  while (true) {
    std::vector<std::vector<int32_t>> buckets = Group(all_reduces, most, stays);
    if (!KeepBehind(all_reduces, buckets, stays)) return buckets;
  }
}

bool BucketRule::KeepBehind(std::span<const AllReduceOfStep> all_reduces,
                            std::span<const std::vector<int32_t>> buckets,
                            std::vector<char>& stays) {
  std::vector<char> joins(all_reduces.size(), 0);
  for (const std::vector<int32_t>& members : buckets) {
    for (int32_t m : members) joins[static_cast<size_t>(m)] = 1;
  }
  bool is_changed = false, is_cut = false, is_broken = false;  // of the link at hand
  for (size_t k = 0; k < joins.size(); ++k) {
    if (k == 0 || all_reduces[k].place != all_reduces[k - 1].place) is_cut = is_broken = false;
    is_broken |= is_cut && joins[k] == 0;
    is_cut |= joins[k] != 0;
    if (!is_broken || joins[k] == 0) continue;
    stays[k] = 1;
    is_changed = true;
  }
  return is_changed;
}

// A bucket has one of a tensor: its steps follow each other.
std::vector<std::vector<int32_t>> BucketRule::Group(std::span<const AllReduceOfStep> all_reduces,
                                                    Bytes most, std::span<const char> stays) const {
  std::map<Kind, Open> open;
  int32_t opened = 0;
  std::vector<int32_t> last_of(facts_.size(), -1);  // by tensor: the last bucket that has one of it
  std::vector<std::vector<int32_t>> buckets;
  const auto close = [&](Open& bucket) {
    if (bucket.members.size() > 1) buckets.push_back(std::move(bucket.members));
    bucket = {};
  };
  for (size_t k = 0; k < all_reduces.size(); ++k) {
    const AllReduceOfStep& one = all_reduces[k];
    if (stays[k] != 0) continue;
    const Facts& facts = facts_[one.id.tensor.index()];
    Open& bucket = open[{one.task, facts.is_for_update}];
    int32_t& last = last_of[one.id.tensor.index()];
    const bool joins = !bucket.members.empty() && last != bucket.number &&
                       bucket.bytes + one.bytes() <= most &&
                       std::min(bucket.read, facts.read) > one.place;
    if (!joins) {
      close(bucket);
      bucket.number = opened++;
      bucket.read = facts.read;
    }
    last = bucket.number;
    bucket.read = std::min(bucket.read, facts.read);
    bucket.members.push_back(static_cast<int32_t>(k));
    bucket.bytes += one.bytes();
  }
  for (auto& [kind, bucket] : open) close(bucket);
  std::sort(buckets.begin(), buckets.end(), [&](const auto& a, const auto& b) {
    return all_reduces[static_cast<size_t>(a[0])].id < all_reduces[static_cast<size_t>(b[0])].id;
  });
  return buckets;
}

}  // namespace partita
