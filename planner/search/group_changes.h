#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/parallel/decision.h"
#include "planner/search/local_costs.h"
#include "planner/search/search_state.h"
#include "planner/space/operator_groups.h"

namespace partita {

// Kinds of changes of a group of operators, in the order in which they are tried; but where there are
// recurrent layers, and steps are not compared in their best orders, readers come before trades.
enum class Change : uint8_t {
  kNeighbours,    // to NeighbourSplits of its first operator
  kShifted,       // to ShiftedSplits
  kShiftedChain,  // the same with what is behind it (ChainBehind)
  kTraded,        // to TradedSplits
  kTradedPair,    // the same with what is behind it, up to ReadersBehind
  kResized,       // to ResizedSplits
  kResizedPair,   // the same with what is behind it, up to ReadersBehind
  kReaders,  // to NeighbourSplits, TradedSplits or ResizedSplits, with those that read what it makes
  kWeights,  // to another EvenPlacement of the weights that it reads as one operand
};
inline constexpr size_t kKindsOfChange = 9;

// Whether there are many changes of the kind.
inline bool HasMany(Change kind) { return kind >= Change::kTraded && kind <= Change::kResizedPair; }

// Changes of some operators, of which the best is gone to.
struct ChangeSet {
  std::vector<OpId> ops;
  std::vector<std::vector<Decision>> proposals;
};

// The changes of groups of operators. On many devices they come in levels, by what they cost by
// themselves (LocalCosts) beside what they replace and the step; otherwise all are of level 0. Not for
// several threads.
class GroupChanges {
 public:
  // All that is passed outlives this.
  GroupChanges(const SearchProblem& problem, const OperatorGroups& groups,
               const SearchState& state);

  // One at least; of the last one is what costs more than all of those before, or what is not known.
  size_t levels() const { return levels_.size() + 1; }
  // Place of a kind in the order in which kinds are tried.
  int PlaceOf(Change kind) const;
  // Changes of a kind and a level in the strategy, which is changed meanwhile and whose step takes so
  // long; weights are of every level. One set is tried after the other; where one improves the strategy,
  // this is asked again.
  std::vector<ChangeSet> Of(Change kind, size_t level, const std::vector<OpId>& group,
                            Strategy& strategy, Nanos step);

 private:
  // The most that changes of a level and some kinds cost: so much more than what they replace, for the
  // group as a whole and over the step; or so many times as much.
  struct Bound {
    double added, times;
  };
  struct Level {
    Bound of_neighbours;
    Bound of_shifts;  // of several operators
    Bound of_others;
  };
  // A question to Of.
  struct Wanted {
    Change kind;
    size_t level;
    const std::vector<OpId>& group;
    Strategy& strategy;
    Nanos step;
  };
  // An operator whose result is split and placed as that of another one; or, of blocks, whose parts find
  // what they read of the other's result where that leaves it.
  struct Copy {
    OpId from, to;
    bool of_blocks = false;
  };
  // Operators that read what those of a group make, and the one of the group that the first reads.
  struct Readers {
    OpId maker;
    std::vector<OpId> ops;
  };

  static std::vector<Level> LevelsOf(bool has_recurrent_layers, double little);
  static std::vector<int32_t> FreeWeights(const SearchSpace& space);
  static const Bound& BoundOf(const Level& level, const Wanted& wanted);
  bool HasLevels(Change kind) const;
  size_t LevelOf(std::optional<int64_t> after, int64_t before, const Wanted& wanted) const;
  static int64_t MostOf(const Level& level, int64_t before, const Wanted& wanted);
  static int64_t PartOfStep(double part, const Wanted& wanted);
  std::vector<ParallelConfig> SplitsOf(OpId op, const Wanted& wanted) const;
  std::vector<ParallelConfig> OwnSplitsOf(OpId op, const Strategy& strategy) const;
  std::vector<ParallelConfig> NearSplitsOf(OpId op, const Strategy& strategy,
                                           std::span<const ParallelConfig> own) const;
  std::vector<Copy> ChainsBehind(const std::vector<OpId>& group) const;
  std::vector<Copy> PairsBehind(const std::vector<OpId>& group) const;
  static std::vector<OpId> FirstOf(const std::vector<OpId>& group, const std::vector<Copy>& chains);
  ChangeSet Split(const Wanted& wanted, const std::vector<Copy>& chains);
  std::vector<OperatorDecision> SwapIn(const Wanted& wanted, const ParallelConfig& config,
                                       const std::vector<Copy>& chains) const;
  std::vector<Readers> ReadersOf(const Wanted& wanted) const;
  std::vector<ChangeSet> SplitWithReaders(const Wanted& wanted);
  ChangeSet SplitWith(const Wanted& wanted, const Readers& readers);
  std::vector<ChangeSet> PlaceWeights(const Wanted& wanted) const;

  const SearchSpace& space_;
  const Graph& graph_;
  const OperatorGroups& groups_;
  const SearchState& state_;
  const bool has_recurrent_layers_;
  const bool in_best_order_;
  const std::vector<int32_t>
      weight_of_;  // indexed by TensorId: the weight that may be decided, or -1
  // Part of the step that changes may add and be called cheap.
  const double little_;
  LocalCosts costs_;
  const std::vector<Level> levels_;  // without the last one
};

}  // namespace partita
