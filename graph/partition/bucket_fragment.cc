#include "graph/partition/bucket_fragment.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "graph/partition/collective_algorithm.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

constexpr absl::string_view kTry =
    "take the choice out of the strategy (in a plan: 'algorithm' and 'bucket'; delete order, "
    "task_graph_fingerprint and prediction, too)";

// The collective of a step, and where it is.
struct Found {
  int32_t group = 0;
  TaskId task;
  const CollectiveTask* body = nullptr;  // null: there is none
};

Found FindCollective(const TensorFragments& fragments, int32_t step) {
  for (size_t g = 0; g < fragments.groups.size(); ++g) {
    for (const Task& task : fragments.groups[g].graph.tasks()) {
      const auto* body = std::get_if<CollectiveTask>(&task.body);
      if (body == nullptr || task.key.step != step) continue;
      return {static_cast<int32_t>(g), task.id, body};
    }
  }
  return {};
}

std::string StepsWithCollectives(const TensorFragments& fragments) {
  std::string steps;
  for (const TensorFragment& fragment : fragments.groups) {
    for (const Task& task : fragment.graph.tasks()) {
      if (!std::holds_alternative<CollectiveTask>(task.body)) continue;
      absl::StrAppend(&steps, steps.empty() ? "" : ", ", task.key.step);
    }
  }
  return steps.empty() ? "none" : steps;
}

absl::Status NoCollective(const Tensor& tensor, int32_t step, const TensorFragments& fragments) {
  return absl::InvalidArgumentError(absl::StrCat(
      "the strategy has a choice for step ", step, " of the exchange of tensor '", tensor.name,
      "', which is no collective; steps that are: ", StepsWithCollectives(fragments), "; ", kTry));
}

absl::Status DoesNot(const std::string& algorithm, const std::string& what,
                     const CollectiveTask& task) {
  return absl::InvalidArgumentError(
      absl::StrCat("the strategy wants algorithm '", algorithm, "' for ", what,
                   ", which it does not do: ", ToString(task.collective), "; ", kTry));
}

absl::Status CannotJoin(const Tensor& tensor, int32_t step, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("step ", step, " of the exchange of tensor '",
                                                 tensor.name, "' is in a bucket, but ", why, "; ",
                                                 kTry));
}

// Groups that form the same sums have equal elements at equal places, and add them alike.
absl::Status CheckReplicas(const Tensor& tensor, const TensorFragments& fragments) {
  std::map<std::string, std::string> row_of;  // by collective
  for (const TensorFragment& fragment : fragments.groups) {
    for (const Task& task : fragment.graph.tasks()) {
      const auto* body = std::get_if<CollectiveTask>(&task.body);
      if (body == nullptr || !body->has_replicas) continue;
      const std::string row = WithoutNodes(body->algorithm);
      const auto [it, added] = row_of.try_emplace(ToString(body->collective), row);
      if (added || it->second == row) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor '", tensor.name, "' is summed by several groups of devices, by ", it->second,
          " and by ", row, ": copies of the sum would round differently; wanted one algorithm"));
    }
  }
  return absl::OkStatus();
}

class RunMaker {
 public:
  RunMaker(const Graph& graph, const ChainPlaces& places,
           std::span<const BucketFragment* const> buckets)
      : graph_(graph), places_(places), buckets_(buckets) {}

  absl::StatusOr<std::vector<TaskRun>> Run(std::span<const TaskRun> runs) {
    for (size_t b = 0; b < buckets_.size(); ++b) RETURN_IF_ERROR(Place(b));
    for (auto& [link, cuts] : cuts_) {
      std::sort(cuts.begin(), cuts.end(),
                [](const Cut& a, const Cut& b) { return a.task < b.task; });
    }
    for (const TaskRun& run : runs) {
      if (cuts_.contains(run.link)) {
        AddRun(run.link, 0, 0);
      } else {
        runs_.push_back(run);
      }
      const auto here = at_link_.find(run.link);
      if (here == at_link_.end()) continue;
      for (size_t b : here->second) RETURN_IF_ERROR(AddBucket(b));
    }
    return std::move(runs_);
  }

 private:
  // A task of a link that a bucket replaces.
  struct Cut {
    int32_t task = 0;
    const BucketFragment* bucket = nullptr;
    bool has_come = false;  // the bucket
  };

  absl::Status Place(size_t b) {
    int32_t place = 0;
    for (const BucketFragment::Member& member : buckets_[b]->members) {
      cuts_[member.link].push_back({member.task.value(), buckets_[b]});
      place = std::max(place, member.link);
    }
    for (const BucketFragment::Member& member : buckets_[b]->members) {
      RETURN_IF_ERROR(CheckReaders(member, place));
    }
    at_link_[place].push_back(b);
    return absl::OkStatus();
  }

  absl::Status CheckReaders(const BucketFragment::Member& member, int32_t place) const {
    for (OpId reader : graph_.consumers(member.tensor)) {
      if (places_.of_op[reader.index()] > place) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "a bucket joins the all-reduce of tensor '", graph_.tensor(member.tensor).name,
          "' with one that comes after its reader '", graph_.op(reader).name,
          "' and would wait for it; ", kTry));
    }
    return absl::OkStatus();
  }

  // Tasks of a link from `begin` to the cut of that number, or to the last.
  void AddRun(int32_t link, int32_t begin, size_t cut) {
    const std::vector<Cut>& cuts = cuts_.at(link);
    const int32_t end = cut == cuts.size() ? TaskRun::kAll : cuts[cut].task;
    if (begin != end) runs_.push_back({.link = link, .begin = begin, .end = end});
  }

  absl::Status AddBucket(size_t b) {
    for (const BucketFragment::Member& member : buckets_[b]->members) {
      RETURN_IF_ERROR(CheckTurn(member, *buckets_[b]));
    }
    runs_.push_back({.bucket = static_cast<int32_t>(b)});
    for (const BucketFragment::Member& member : buckets_[b]->members) {
      std::vector<Cut>& cuts = cuts_.at(member.link);
      for (Cut& cut : cuts) cut.has_come |= cut.task == member.task.value();
      for (size_t& next = next_[member.link]; next < cuts.size() && cuts[next].has_come;) {
        const int32_t behind = cuts[next].task + 1;
        AddRun(member.link, behind, ++next);
      }
    }
    return absl::OkStatus();
  }

  // A bucket may come before those of earlier all-reduces of the tensor that are just in front of its
  // own, by other devices: neither has what the other makes.
  absl::Status CheckTurn(const BucketFragment::Member& member, const BucketFragment& bucket) {
    const std::vector<Cut>& cuts = cuts_.at(member.link);
    for (size_t k = next_[member.link]; cuts[k].task < member.task.value(); ++k) {
      const bool is_next = cuts[k].task + 1 == cuts[k + 1].task;
      if (is_next && (cuts[k].has_come || !ShareDevices(*cuts[k].bucket, bucket))) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("two all-reduces of tensor '", graph_.tensor(member.tensor).name,
                       "' are in buckets that come in another order than they do; ", kTry));
    }
    return absl::OkStatus();
  }

  static bool ShareDevices(const BucketFragment& a, const BucketFragment& b) {
    const auto group_of = [](const BucketFragment& bucket) -> const std::vector<DeviceId>& {
      return std::get<CollectiveTask>(bucket.graph.task(TaskId(0)).body).group;
    };
    const absl::flat_hash_set<DeviceId> of_b(group_of(b).begin(), group_of(b).end());
    return std::any_of(group_of(a).begin(), group_of(a).end(),
                       [&](DeviceId device) { return of_b.contains(device); });
  }

  const Graph& graph_;
  const ChainPlaces& places_;
  std::span<const BucketFragment* const> buckets_;
  std::map<int32_t, std::vector<Cut>> cuts_;        // by link, in the order of the tasks
  std::map<int32_t, std::vector<size_t>> at_link_;  // by link: buckets that come behind it
  std::map<int32_t, size_t> next_;  // by link: the first cut behind which tasks are held back
  std::vector<TaskRun> runs_;
};

}  // namespace

absl::Status CheckAlgorithms(const Tensor& tensor, const TensorFragments& fragments,
                             std::span<const AlgorithmChoice> algorithms) {
  if (!algorithms.empty()) RETURN_IF_ERROR(CheckReplicas(tensor, fragments));
  for (const AlgorithmChoice& choice : algorithms) {
    const int32_t step = choice.collective.step;
    const Found found = FindCollective(fragments, step);
    if (found.body == nullptr) return NoCollective(tensor, step, fragments);
    if (RunsBy(*found.body, choice.algorithm)) continue;
    return DoesNot(choice.algorithm,
                   absl::StrCat("step ", step, " of the exchange of tensor '", tensor.name, "'"),
                   *found.body);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<BucketFragment::Member>> FindMembers(const Graph& graph,
                                                                const ChainPlaces& places,
                                                                const Bucket& bucket,
                                                                const StepFragments& step) {
  std::vector<BucketFragment::Member> members;
  const CollectiveTask* first = nullptr;
  for (const auto& [id, number] : bucket.members) {
    const Tensor& tensor = graph.tensor(id);
    const Found found = FindCollective(*step.tensors[id.index()], number);
    if (found.body == nullptr) return NoCollective(tensor, number, *step.tensors[id.index()]);
    const CollectiveTask& body = *found.body;
    if (first == nullptr) first = &body;
    if (body.collective.kind != CollectiveKind::kAllReduce) {
      return CannotJoin(tensor, number, absl::StrCat("it is ", Name(body.collective.kind)));
    }
    if (body.has_replicas) {
      return CannotJoin(tensor, number,
                        "other devices form the same sums, whose terms must be added in one order");
    }
    if (body.group != first->group || body.dtype != first->dtype ||
        body.collective.reduction != first->collective.reduction) {
      return CannotJoin(tensor, number,
                        absl::StrCat("its devices, type or reduction are not those of tensor '",
                                     graph.tensor(bucket.members[0].tensor).name, "'"));
    }
    const int32_t link = places.of_tensor[id.index()][static_cast<size_t>(found.group)];
    members.push_back({id, found.group, link, found.task});
  }
  return members;
}

absl::StatusOr<BucketFragment> MakeBucketFragment(
    const std::vector<BucketFragment::Member>& members, const std::string& algorithm,
    const StepFragments& step, const PartitionOptions& options) {
  BucketFragment made;
  made.members = members;
  TaskGraphBuilder builder(options.devices, false);
  CollectiveTask task;
  TaskKey key;
  int64_t total = 0;
  for (size_t m = 0; m < members.size(); ++m) {
    const TaskGraph& graph = step.TensorFragmentOf(members[m].tensor, members[m].group).graph;
    const Task& replaced = graph.task(members[m].task);
    const auto& body = std::get<CollectiveTask>(replaced.body);
    if (m == 0) {
      key = replaced.key;
      task.group = body.group;
      task.dtype = body.dtype;
      task.collective.reduction = body.collective.reduction;
    }
    total += body.collective.total;
    task.bucket.push_back(members[m].tensor);
    for (const Slice& slice : body.send) {
      if (slice.buffer == kNoBuffer) {  // of another pod
        task.send.push_back(slice);
        continue;
      }
      made.sources.push_back({static_cast<int32_t>(m), slice.buffer.value()});
      const BufferId slot = builder.AddBuffer(graph.buffer(slice.buffer));
      task.send.push_back({slot, slice.offset, slice.count});
    }
  }
  task.receive = task.send;
  task.collective =
      MakeAllReduce(static_cast<int>(task.group.size()), total, task.collective.reduction);
  task.algorithm =
      ChooseAlgorithm(task, {}, {algorithm, options.algorithm, options.node_of_device});
  if (!algorithm.empty() && !RunsBy(task, algorithm)) return DoesNot(algorithm, "a bucket", task);
  made.outer = builder.buffers();
  builder.AddTask(key, std::move(task));
  made.graph = std::move(builder).Build();
  return made;
}

absl::StatusOr<std::vector<TaskRun>> RunsWithBuckets(
    const Graph& graph, const ChainPlaces& places, std::span<const TaskRun> runs,
    std::span<const BucketFragment* const> buckets) {
  return RunMaker(graph, places, buckets).Run(runs);
}

}  // namespace partita
