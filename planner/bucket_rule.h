#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "graph/parallel/strategy.h"
#include "graph/partition/fragment.h"
#include "graph/support/strong_int.h"
#include "graph/task/task_graph.h"

namespace partita {

inline Bytes BytesOf(const CollectiveTask& task) {
  return Bytes(task.collective.total * SizeOf(task.dtype));
}

// An all-reduce of a step, and the place of its link in the chain. The task outlives this.
struct AllReduceOfStep {
  CollectiveStepId id;
  int32_t place = 0;
  const CollectiveTask* task = nullptr;

  Bytes bytes() const { return BytesOf(*task); }
};

// The rule by which small all-reduces of a graph's steps go together in buckets: in the order of the
// tasks they join while the bucket has no more than so many bytes, and no reader of a member comes
// in front of what makes another one; what only updates read goes with its like.
class BucketRule {
 public:
  // Keeps nothing of them.
  BucketRule(const Graph& graph, const ChainPlaces& places);

  // Whether a bucket may have the collective, by that alone.
  static bool MayJoin(const CollectiveTask& task) {
    return task.collective.kind == CollectiveKind::kAllReduce && task.collective.total > 0 &&
           !task.has_replicas;
  }
  // The tasks of a tensor's exchange that buckets can have: the first of its all-reduces, and those
  // right behind it by other devices, which may come in any order.
  std::vector<TaskId> JoinableOf(TensorId tensor, const TaskGraph& exchange) const;
  // Buckets of several all-reduces, as their places in the list, in the order of first members. All
  // on the list may join, and come in the order of their tasks.
  std::vector<std::vector<int32_t>> BucketsOf(std::span<const AllReduceOfStep> all_reduces,
                                              Bytes most) const;

 private:
  // By tensor: the place of the first operator that reads it, -1 where none does or nothing makes it;
  // and whether that is an update, so that what backward waits for does not wait for the tensor.
  struct Facts {
    int32_t read = -1;
    bool is_for_update = false;
  };
  struct Open;
  struct Kind;

  // Buckets of those that do not stay by themselves.
  std::vector<std::vector<int32_t>> Group(std::span<const AllReduceOfStep> all_reduces, Bytes most,
                                          std::span<const char> stays) const;
  // Has those stay by themselves that join behind one of their link that does not, which is behind
  // one that does. Returns whether there are any.
  static bool KeepBehind(std::span<const AllReduceOfStep> all_reduces,
                         std::span<const std::vector<int32_t>> buckets, std::vector<char>& stays);

  std::vector<Facts> facts_;
};

}  // namespace partita
