#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "graph/parallel/strategy.h"
#include "graph/partition/fragment_cache.h"
#include "planner/bucket_rule.h"

namespace partita {

// The all-reduces of a step that buckets may have, from step to step. Not for several threads.
class StepAllReduces {
 public:
  // The cache outlives this.
  explicit StepAllReduces(const FragmentCache& cache);

  // The number of a link's task, by which its user knows it; -1: it is left out.
  using NumberOfTask = absl::FunctionRef<int32_t(size_t link, TaskId task)>;
  // Finds those of a step without buckets, of which tensors without fragments have none. What the
  // strategy names an algorithm for, and what control edges hold back, stays by itself.
  void Find(const StepFragments& step, const Strategy& strategy, NumberOfTask number_of);

  // The place of one of them.
  struct Place {
    size_t link = 0;
    int32_t number = 0;
  };
  // In the order of the tasks. They live until the next Find.
  const AllReduceOfStep& one(int32_t k) const { return all_reduces_[static_cast<size_t>(k)]; }
  const Place& place(int32_t k) const { return places_[static_cast<size_t>(k)]; }
  // Buckets of them by the rule, as lists of their numbers, in the order of first members.
  std::vector<std::vector<int32_t>> BucketsOf(Bytes most) const {
    return rule_.BucketsOf(all_reduces_, most);
  }
  // A list of these as a strategy has it.
  Bucket BucketOf(std::span<const int32_t> members) const;
  // The task of such a bucket, with the algorithm that it gets by rule and without its slices.
  CollectiveTask TaskOf(std::span<const int32_t> members) const;
  // The same of that many elements like the first member's.
  CollectiveTask TaskOf(const CollectiveTask& first, int64_t total) const;

 private:
  // All-reduces of a link that may go in buckets, and the number of the fragment that they are of.
  struct OfLink {
    int64_t fragment = -1;
    std::vector<TaskId> all_reduces = {};
  };
  void FindOfLink(const StepFragments& step, const Strategy& strategy, size_t link,
                  NumberOfTask number_of);

  const FragmentCache& cache_;
  const BucketRule rule_;
  std::vector<OfLink> of_links_;  // indexed by link
  std::vector<AllReduceOfStep> all_reduces_;
  std::vector<Place> places_;
};

}  // namespace partita
