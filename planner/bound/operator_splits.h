#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "graph/graph.h"
#include "graph/parallel/parts.h"
#include "planner/bound/least_prices.h"

namespace partita {

// Parts of one operator under some split of its anchor, for the lower bound: those that read the same
// inputs. A part is one that computes something, copies left out.
struct OperatorSplit {
  // Blocks of an output that the parts make.
  struct Made {
    Shape block;        // the largest extents of a part's box
    int64_t terms = 1;  // parts whose sum an element is, at least
  };

  uint64_t reads = 0;       // inputs of which these parts read anything, as bits
  std::vector<Shape> need;  // by input: the least extents that one of these parts reads
  std::vector<Made> makes;  // by output
  // The least time of one of these parts, with whatever its kernel may be fused with; 0 where
  // another one may do it first.
  int64_t time = 0;
  // The least time of one of these parts with the epilogue; kNoTime where there is none, or where
  // the result is a sum that is not complete.
  int64_t time_with_epilogue = kNoTime;
};

// All splits of an anchor that were looked at.
struct AnchorSplits {
  std::vector<std::vector<OperatorSplit>> of;  // indexed by follower; different ones
  // Time of the parts of all followers in sum, under the split that makes that least, and of each
  // follower under its own.
  int64_t work = kNoTime;
  std::vector<int64_t> work_of;  // indexed by follower
};

// Finds the splits of anchors; like ones share them. Not for several threads.
class SplitFinder {
 public:
  // Splits into up to BoundSubject::most_parts parts all are looked at; where that is less than
  // twice the devices, also those of two loops by divisors of the devices, into up to twice as many
  // parts. What is passed outlives this.
  SplitFinder(const BoundSubject& subject, const LeastPrices& prices);

  const std::vector<OpId>& FollowersOf(OpId anchor) const { return followers_[anchor.index()]; }
  // Valid as long as this.
  const AnchorSplits& Of(OpId anchor);
  // The least time of an update, whatever layout its weight has.
  const LeastPrices::Shared& UpdateOf(OpId update);
  // The least time of one part of an operator under the degrees of its anchor's loops, with
  // whatever its kernel may be fused with; 0 where another kernel may do it.
  int64_t LeastTimeOf(const Operator& op, const Part& part,
                      const std::vector<int32_t>& degrees_of_anchor);
  // Whether it gave up: the answers are of some splits only.
  bool given_up() const { return given_up_; }

 private:
  // Parts that are like one of them.
  struct Counted {
    std::vector<Part> parts;
    std::vector<int64_t> count;
  };
  // One follower under the degrees of its own loops.
  struct Facts {
    bool fits = false;
    int64_t work = 0;
    std::vector<OperatorSplit> splits;  // by inputs read
  };
  // Least times of a part: of its kernel, and of what it adds to the work of all, with what is done
  // before or after it.
  struct KernelTimes {
    int64_t least = 0, work = 0;
  };
  using Degrees = std::vector<int32_t>;
  using Key = std::vector<int32_t>;
  // Blocks of a loop, one of those that look alike with their number.
  using Blocks = std::vector<std::pair<Interval, int64_t>>;

  Key KeyOf(OpId anchor);
  Degrees OwnDegrees(const Operator& op, const Degrees& degrees_of_anchor) const;
  int32_t UpdateKey(OpId id);
  void AddSplit(OpId anchor, const Degrees& degrees, AnchorSplits& splits);
  const Facts& FactsOf(const Operator& op, const Degrees& degrees);
  Facts MakeFacts(const Operator& op, const Degrees& degrees);
  std::optional<Counted> PartsOf(const Operator& op, const Degrees& degrees);
  const Blocks& BlocksOf(const Operator& op, size_t loop, int32_t degree);
  int64_t TermsOf(const Operator& op, size_t output, const Degrees& degrees) const;
  KernelTimes TimesOf(const Operator& op, const KernelSignature& plain, const Part& part,
                      int64_t terms, const Degrees& degrees);
  int64_t OfKernelOrEpilogue(const Operator& op, const KernelSignature& kernel);
  bool MayBeTaken(const Operator& op, const Degrees& degrees) const;
  KernelTimes TimesTaking(const Operator& op, const KernelSignature& plain, const Part& part,
                          const Degrees& degrees);
  KernelTimes TimesWithUpdate(const Operator& op, const KernelSignature& plain, const Part& part,
                              int64_t terms);

  const Graph& graph_;
  const PartitionOptions& options_;
  const std::vector<FusionFate>& fates_;
  const int64_t most_parts_;
  const std::function<bool()>& interrupted_;
  const LeastPrices& prices_;
  bool given_up_ = false;
  const std::vector<std::vector<OpId>> followers_;  // indexed by OpId
  std::vector<int32_t> class_of_;                   // indexed by OpId of an anchor
  std::map<Key, AnchorSplits> known_;
  std::vector<OpId> updates_;                                         // met so far, one of a kind
  absl::flat_hash_map<OpId, LeastPrices::Shared> prices_of_updates_;  // by the first of a kind
  // Facts of the anchor at hand: by follower, then by the degrees of its own loops.
  absl::flat_hash_map<OpId, std::map<Degrees, Facts>> facts_;
  // Blocks of the anchor at hand, by operator, loop and degree.
  std::map<std::tuple<OpId, size_t, int32_t>, Blocks> blocks_;
};

}  // namespace partita
