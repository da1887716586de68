#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "graph/partition/fragment_cache.h"
#include "planner/evaluator.h"
#include "planner/flat_step.h"

namespace partita {

// Exchange of one tensor under some decisions: what its tasks take at least, in nanoseconds, with
// nothing beside them. Fragments are the evaluator's, so that every step with these decisions has
// these tasks.
struct ExchangeDelays {
  static constexpr int64_t kNever = -1;

  // A part of an operator that makes a piece of the tensor.
  struct Source {
    OpId op;
    int32_t part = 0;  // place in the list of the operator's parts
  };
  // A part of a consumer, and the longest paths of tasks before what it reads is there.
  struct Reader {
    int32_t part = 0;
    DeviceId device;
    int64_t kernel = 0;      // of a weight's update: the time of the part's kernel, not fused
    int64_t from_begin = 0;  // from the begin of the step
    // Indexed by source: from the end of that part; kNever where it does not wait for it.
    std::vector<int64_t> from_source;
  };

  std::vector<Source> sources;
  std::vector<std::vector<Reader>> readers;  // indexed by place in graph.consumers(tensor)
  // Indexed by source: the longest path of tasks from the end of that part to the end of the
  // exchange.
  std::vector<int64_t> to_end;
  Loads loads;    // of all tasks
  Loads waiting;  // of those that wait for a source
};

// Finds the delays of tensors, one strategy at a time. Fragments are kept from call to call. Not
// for several threads.
class ExchangeDelayFinder {
 public:
  // The evaluator outlives this.
  explicit ExchangeDelayFinder(const Evaluator& evaluator);

  // nullopt where the strategy does not fit.
  std::optional<ExchangeDelays> Find(const Strategy& strategy, TensorId tensor);

 private:
  bool FindFragments(const Strategy& strategy, TensorId tensor);
  void AddGroup(TensorId tensor, size_t group, ExchangeDelays& delays);
  // Parts of a consumer that read slots of a group's fragment, and these slots. Without times.
  std::vector<std::pair<ExchangeDelays::Reader, size_t>> ReadersIn(TensorId tensor, size_t consumer,
                                                                   size_t group) const;

  const Graph& graph_;
  FragmentFlattener flattener_;
  FragmentCache cache_;
  const Bytes most_cached_;
  StepFragments step_;
};

}  // namespace partita
