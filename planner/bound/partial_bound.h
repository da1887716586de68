#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "graph/parallel/decision.h"
#include "planner/bound/exchange_delays.h"
#include "planner/bound/least_prices.h"
#include "planner/bound/operator_splits.h"
#include "planner/bound/subject.h"
#include "planner/evaluator.h"

namespace partita {

// A time that no step is shorter than which agrees with some decisions and has one of the given
// candidates for each subject that is undecided: for branch and bound. The largest of three, which
// hold for every schedule:
//   load: the busiest resource, by kernels of decided operators and exchanges of tensors all of
//     whose makers, readers and layouts are decided; and compute lanes in sum, undecided operators
//     and updates of weights at their least, over the devices that can compute at once;
//   late: of every resource, the earliest time at which some of those kernels and exchanges may
//     begin, by the paths below, and all that begins no earlier on it;
//   path: the longest path through parts of operators and the tasks of exchanges between them. An
//     undecided operator's parts end no earlier than under any of its candidates; exchanges between
//     two undecided ones, and those that hang on more undecided subjects, count nothing.
// Kernels count at their least over what they may be fused with (SplitFinder); updates of weights
// in paths and late loads only where their gradients come by exchanges. 0, which is no bound,
// where collectives are in buckets or formats are chosen. Not for several threads.
class PartialBound {
 public:
  // `candidates`: by subject, all about one operator or weight and valid. All else is as in `base`.
  // Evaluator and candidates outlive this. Nothing is known, as without a bound, if `interrupted`
  // was true meanwhile.
  PartialBound(const Evaluator& evaluator, Strategy base,
               std::span<const std::vector<Decision>> candidates,
               const std::function<bool()>& interrupted);

  // Decides an undecided subject, by the places of the subject and of its candidate.
  void Decide(size_t subject, size_t candidate);
  void Undecide(size_t subject);

  // Nanoseconds. Goes no further than is needed for a bound of `enough`.
  int64_t Bound(int64_t enough = std::numeric_limits<int64_t>::max());

  // Places of subjects: operators in the order of the graph, then weights in the order of the last
  // operators that decide where they lie.
  std::vector<size_t> OrderOfSubjects() const;

 private:
  // Number of a decision: anchor a of graph.anchors() is a, weight w is anchors + w.
  using Number = int32_t;
  // Parts of an operator under one candidate of its anchor.
  struct Parts {
    std::vector<int64_t> times;     // by part, least
    std::vector<DeviceId> devices;  // by part
    std::vector<uint64_t> reads;    // by part: inputs that it reads anything of, as bits
  };
  struct Choice {
    int32_t candidates = 1;
    int32_t chosen = 0;             // -1: undecided
    size_t subject = 0;             // place of the subject; of those with candidates only
    int64_t least_work = 0;         // of an anchor, by its best candidate
    std::vector<int64_t> work;      // of an anchor, by candidate
    std::vector<TensorId> tensors;  // that depend on it
  };
  // Candidates of all that a tensor depends on, in their order; -1 for what is undecided.
  using Candidates = absl::InlinedVector<int32_t, 8>;
  struct TensorFacts {
    std::vector<Number> depends;  // ascending
    int32_t undecided = 0;
    bool is_numbered = true;  // whether combinations of the candidates have numbers of 64 bits
    // By number of the candidates; null where they do not fit.
    absl::flat_hash_map<uint64_t, std::unique_ptr<const ExchangeDelays>> known;
  };
  using Ends = std::vector<int64_t>;  // by part

  void FindChoices(std::span<const std::vector<Decision>> candidates);
  void FindDependencies();
  bool FindParts(Number anchor, const std::function<bool()>& interrupted);
  // The candidate's where the anchor is undecided, otherwise the strategy's.
  const ParallelConfig& ConfigUnder(Number anchor, int32_t candidate) const;
  std::set<Number> WeightsOf(const Tensor& tensor, const std::vector<Number>& weight_of) const;
  bool IsAnchor(Number number) const {
    return static_cast<size_t>(number) < graph_.anchors().size();
  }
  Choice& ChoiceOf(Number number) { return choices_[static_cast<size_t>(number)]; }
  const Choice& ChoiceOf(Number number) const { return choices_[static_cast<size_t>(number)]; }
  const std::vector<OpId>& FollowersOf(Number anchor) const {
    return followers_[graph_.anchors()[static_cast<size_t>(anchor)].index()];
  }
  // Kernels of a decided anchor; `sign`: 1 adds, -1 takes away.
  void AddKernels(Number anchor, int64_t sign);
  // Exchanges that hang on the decision and on nothing undecided.
  void AddExchanges(Number decided, int64_t sign);
  void AddLoadsOf(const Loads& loads, int64_t sign);
  const ExchangeDelays* DelaysOf(TensorId tensor, const Candidates& candidates);
  Candidates ChosenFor(TensorId tensor) const;
  int64_t LargestLoad() const;
  int64_t LongestPath();
  // Looks at what is decided. Precondition: LongestPath found the ends.
  int64_t LargestLateLoad();
  void ListLateLoads();
  void ListLateKernel(DeviceId device, int64_t begin, int64_t time);
  // The ends of an update's parts where all that decides them is decided; otherwise none.
  int64_t FindUpdateEnds(const Operator& op);
  // The ends of the operator's parts. Returns the last.
  int64_t FindEnds(const Operator& op, int32_t candidate);
  // Raises the times before which parts of the operator do not start, by its `input`-th operand.
  void RaiseStarts(const Operator& op, int32_t candidate, size_t input, Ends& starts);
  // The same by an exchange under candidates of all that it depends on, in their order.
  void RaiseStartsAfter(const Operator& op, TensorId tensor, const Candidates& candidates,
                        Ends& starts);
  void RaiseAfterProducers(const Parts& parts, TensorId tensor, size_t input, Ends& starts) const;
  int64_t EndOfExchange(TensorId tensor);
  // The end of the part that makes a piece; 0 where it is not known.
  int64_t EndOf(const ExchangeDelays::Source& source, TensorId tensor,
                const Candidates& candidates) const;

  const Evaluator& evaluator_;
  const Graph& graph_;
  Strategy strategy_;  // with what is decided; all else as in the base
  std::span<const std::vector<Decision>> candidates_;
  bool is_known_ = true;
  const BoundSubject subject_;
  const LeastPrices prices_;
  SplitFinder finder_;
  ExchangeDelayFinder delays_;
  std::vector<Choice> choices_;               // indexed by number
  std::vector<Number> number_of_subject_;     // indexed by place of the subject
  std::vector<Number> number_of_op_;          // indexed by OpId: of its anchor; -1: an update
  std::vector<std::vector<OpId>> followers_;  // indexed by OpId of an anchor
  std::vector<std::vector<Parts>> parts_;     // indexed by OpId, then candidate
  std::vector<TensorFacts> tensors_;          // indexed by TensorId
  std::vector<int64_t> loads_;                // indexed by resource
  int64_t known_delays_ = 0;                  // in all of tensors_
  int64_t compute_ = 0;  // sum over compute lanes, with the least of undecided operators
  // Ends on the path at hand: by OpId and candidate; and the least of those that are allowed.
  std::vector<std::vector<Ends>> ends_;
  std::vector<int64_t> least_end_;
  // Busy time of a resource that begins at a time or later.
  struct LateLoad {
    int32_t resource = 0;
    int64_t begin = 0, time = 0;
  };
  std::vector<LateLoad> late_;
  Ends ends_of_sources_, one_start_, least_start_;  // of the exchange at hand
};

}  // namespace partita
