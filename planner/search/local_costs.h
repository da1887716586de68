#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "graph/parallel/strategy.h"
#include "planner/search/additive_costs.h"

namespace partita {

// The part of a strategy's additive cost that a few operators decide: a hint, for a small part of what
// an evaluation takes, of what a change of them is worth. Times that were found are kept, and hold for
// all like anchors (LikeClasses). Not for several threads.
class LocalCosts {
 public:
  // The evaluator outlives this.
  explicit LocalCosts(const Evaluator& evaluator);

  // Nanoseconds of the anchors' kernels, of what they exchange among themselves and with others, and
  // of gradients and updates of their weights, by a few parts and by bytes. nullopt where a
  // configuration does not fit. Of what costs more than `most` perhaps only a part that does, or what its
  // bytes take, for less.
  std::optional<int64_t> Of(const Strategy& strategy, std::span<const OpId> anchors,
                            int64_t most = std::numeric_limits<int64_t>::max());

 private:
  // Number of a configuration of like anchors; -1: it does not fit.
  using Number = int32_t;
  struct OfAnchor {
    std::vector<size_t> pairs;  // places in AdditiveCosts::pairs()
    // The parts under the configuration asked for last.
    Number made_of = -1;
    ConfiguredAnchor made;
  };

  // Numbers and prices a configuration that is new.
  Number NumberOf(OpId anchor, const ParallelConfig& config);
  // The parts live until Keep for the anchor, or LimitParts.
  const ConfiguredAnchor& PartsUnder(OpId anchor, const ParallelConfig& config, Number number);
  void Keep(Number number, ConfiguredAnchor made);
  // Forgets parts where they take too much memory.
  void LimitParts();
  // A configuration without exchanges with others.
  struct Own {
    int64_t kernels = 0;     // nanoseconds
    ExchangeTime exchanges;  // at least, until all of them is asked for
  };
  // A cost at hand: of a pair, or of an anchor's own exchanges.
  struct Question {
    static constexpr size_t kOwn = SIZE_MAX;
    OpId anchor;
    size_t pair;
    Number a, b;
    int64_t added = 0;  // nanoseconds, to the sum
  };
  // Adds what the anchor, one of those at hand, exchanges with those of them behind it, or with others, as
  // long as `sum` is at most `most`. False where a configuration does not fit.
  bool AddPairs(OpId anchor, bool inside, const Strategy& strategy, int64_t most, int64_t& sum);
  ExchangeTime Priced(const Question& one, const Strategy& strategy, ExchangePricing pricing);
  // The numbers are those of the pair's configurations, which fit. At least, until all is asked for.
  const ExchangeTime& OfPair(const Question& one, const Strategy& strategy);
  // The time that exchanges take whole.
  int64_t WholeOf(const Question& one, const Strategy& strategy);

  AdditiveCosts costs_;
  const std::vector<int32_t> class_of_;      // indexed by OpId: of like anchors
  const std::vector<int32_t> kind_of_pair_;  // by place
  std::vector<OfAnchor> anchors_;            // indexed by OpId
  Bytes of_parts_;                           // memory that their parts take
  std::vector<absl::flat_hash_map<ParallelConfig, Number>> numbers_;  // by class
  std::vector<Own> own_;                                              // by number
  std::vector<Question> open_;  // of the anchors at hand: what may cost more
  // Indexed by OpId: of the anchors at hand their configurations' numbers; -1: of others.
  std::vector<Number> number_in_;
  // Keyed by kind of pair, and the numbers.
  absl::flat_hash_map<std::tuple<int32_t, Number, Number>, ExchangeTime> of_pairs_;
};

}  // namespace partita
