#pragma once

#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "graph/parallel/strategy.h"
#include "graph/partition/fragment_cache.h"
#include "planner/flat_step.h"
#include "planner/simulator/resource_lister.h"
#include "planner/step_all_reduces.h"

namespace partita {

// Tasks of several links that are one in a simulation, with the key of the first: it waits for all
// that they wait for, and all that waits for one of them waits for it.
struct JoinedTasks {
  struct Member {
    size_t link = 0;
    size_t task = 0;  // counted within the link
  };
  std::vector<Member> members;
  Nanos duration;
  std::span<const int32_t> resources;  // that it holds
};

// Buckets by the rule, from step to step, without fragments of their own. Not for several threads.
class StepBuckets {
 public:
  // The arguments outlive this.
  StepBuckets(const FragmentCache& cache, const FlatteningRules& rules, ResourceLister& lister);

  // Finds those of a step without buckets, as StepAllReduces does; most = 0: none. Tasks are numbered
  // as their links' flat forms have them, and those of other pods left out, which are alike.
  void Find(const StepFragments& step, const Strategy& strategy, Bytes most,
            StepAllReduces::NumberOfTask number_of);

  // In the order of first members. They live until the next Find.
  std::span<const JoinedTasks> joined() const { return joined_; }
  // The same for a strategy.
  std::vector<Bucket> buckets() const;
  // The size that Find was given.
  Bytes most() const { return most_; }
  // Whether their durations are known, do not depend on what else runs, and are of usual lengths.
  bool are_regular() const { return are_regular_; }
  // The tasks of the step, with each bucket as one, less those without.
  int64_t tasks_less() const { return tasks_less_; }

 private:
  // A bucket's task, but for what it sends.
  struct Priced {
    TaskCost cost;
    std::vector<int32_t> resources;
    bool is_known = true;  // false: what other pods do is not
  };
  // Key of a price: devices, element type, reduction, elements.
  using Content = std::tuple<std::vector<DeviceId>, DType, Reduction, int64_t>;

  const Priced& PriceOf(const CollectiveTask& first, int64_t total);
  // Prices the task, or what the first pod sees of it.
  void Price(const TaskBody& body, Priced& priced);

  const FlatteningRules& rules_;
  ResourceLister& lister_;
  StepAllReduces all_reduces_;
  std::vector<std::vector<int32_t>> members_;  // by bucket: numbers of all-reduces
  std::vector<JoinedTasks> joined_;
  Bytes most_{0};
  bool are_regular_ = true;
  int64_t tasks_less_ = 0;
  absl::node_hash_map<Content, Priced> priced_;
  Bytes of_priced_;  // memory that it takes
};

}  // namespace partita
