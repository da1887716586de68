#include "planner/search/group_changes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "planner/space/moves.h"
#include "planner/space/neighbour_splits.h"
#include "planner/space/recurrent_layers.h"

namespace partita {
namespace {

// Devices from which on local costs take little beside evaluations.
constexpr int kManyDevices = 16;
// Pairs of an operator's split and its readers' that are evaluated: those that cost least.
constexpr size_t kMostWithReaders = 4;

bool Has(const std::vector<OpId>& ops, OpId op) {
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

void Swap(Strategy& strategy, OperatorDecision& decision) {
  std::swap(strategy.configs[decision.op.index()], decision.config);
}

}  // namespace

GroupChanges::GroupChanges(const SearchProblem& problem, const OperatorGroups& groups,
                           const SearchState& state)
    : space_(problem.space),
      graph_(space_.graph()),
      groups_(groups),
      state_(state),
      weight_of_(FreeWeights(space_)) {
  if (space_.devices() < kManyDevices) return;
  costs_.emplace(problem.evaluator);
  levels_ = LevelsOf(graph_);
}

// In searches for models of convolutions one in ten of those that cost less was an improvement, one in
// 125 of those that cost up to half as much again, one in 2,500 beyond that. Where recurrent layers work
// at the same time, as stages, these costs tell less.
std::span<const GroupChanges::Level> GroupChanges::LevelsOf(const Graph& graph) {
  static constexpr Level kLevels[] = {{1, 1}, {1.1, 5}, {1.5, 5}};
  static constexpr Level kLevelsOfRecurrent[] = {{1.75, std::numeric_limits<double>::infinity()}};
  if (RecurrentLayers(graph).empty()) return kLevels;
  return kLevelsOfRecurrent;
}

std::vector<int32_t> GroupChanges::FreeWeights(const SearchSpace& space) {
  std::vector<int32_t> weight_of(space.graph().tensors().size(), -1);
  for (int32_t weight : space.weights()) {
    weight_of[space.graph().weights()[static_cast<size_t>(weight)].tensor.index()] = weight;
  }
  return weight_of;
}

std::vector<ChangeSet> GroupChanges::Of(Change kind, size_t level, const std::vector<OpId>& group,
                                        Strategy& strategy) {
  const Wanted wanted{kind, level, group, strategy};
  if (kind == Change::kWeights) return PlaceWeights(wanted);
  if (level > 0 && !HasLevels(kind)) return {};
  if (kind == Change::kReaders) return SplitWithReaders(wanted);
  const bool is_chained = kind == Change::kShiftedChain || kind == Change::kTradedPair;
  std::vector<Copy> behind;
  if (kind == Change::kShiftedChain) behind = ChainsBehind(group);
  if (kind == Change::kTradedPair) behind = PairsBehind(group);
  std::vector<ChangeSet> sets;
  if (!is_chained || !behind.empty()) sets.push_back(Split(wanted, behind));
  return sets;
}

// Whether changes of the kind have several levels; otherwise all are of the first.
bool GroupChanges::HasLevels(Change kind) const {
  const bool is_bounded = kind != Change::kWeights && kind != Change::kReaders;
  return costs_.has_value() && is_bounded && std::isfinite(BoundOf(levels_[0], kind));
}

// Of a change after which they cost so much.
size_t GroupChanges::LevelOf(std::optional<int64_t> after, int64_t before, Change kind) const {
  if (!after.has_value()) return levels_.size();
  const double times = static_cast<double>(*after) / std::max(1.0, static_cast<double>(before));
  const auto level = std::find_if(levels_.begin(), levels_.end(),
                                  [&](const Level& one) { return times <= BoundOf(one, kind); });
  return static_cast<size_t>(level - levels_.begin());
}

// What changes cost that are not of the last level.
int64_t GroupChanges::MostOfLevels(int64_t before, Change kind) const {
  const double times = BoundOf(levels_.back(), kind);
  return static_cast<int64_t>(times * std::max(1.0, static_cast<double>(before))) + 1;
}

// Configurations of an operator by the kind of change.
std::vector<ParallelConfig> GroupChanges::SplitsOf(OpId op, const Wanted& wanted) const {
  if (wanted.kind == Change::kNeighbours) return NeighbourSplits(space_, wanted.strategy, op);
  return HasMany(wanted.kind) ? TradedSplits(space_, wanted.strategy, op)
                              : ShiftedSplits(space_, wanted.strategy, op);
}

// Those of neighbours and those traded, each once.
std::vector<ParallelConfig> GroupChanges::NearSplitsOf(OpId op, const Strategy& strategy) const {
  std::vector<ParallelConfig> splits = NeighbourSplits(space_, strategy, op);
  for (ParallelConfig& traded : TradedSplits(space_, strategy, op)) {
    const bool is_known = std::find(splits.begin(), splits.end(), traded) != splits.end();
    if (!is_known) splits.push_back(std::move(traded));
  }
  return splits;
}

std::vector<GroupChanges::Copy> GroupChanges::ChainsBehind(const std::vector<OpId>& group) const {
  std::vector<Copy> chains;
  for (OpId op : group) {
    for (OpId behind : ChainBehind(graph_, op)) {
      if (groups_.IsFree(behind)) chains.push_back({op, behind});
    }
  }
  return chains;
}

// The same, and the operators behind the chains that are not of the group.
std::vector<GroupChanges::Copy> GroupChanges::PairsBehind(const std::vector<OpId>& group) const {
  std::vector<Copy> pairs = ChainsBehind(group);
  for (OpId op : group) {
    for (const auto& [maker, reader] : ReadersBehind(graph_, op)) {
      if (groups_.IsFree(reader) && !Has(group, reader)) pairs.push_back({maker, reader, true});
    }
  }
  return pairs;
}

// The group's first operator, and what changes with that.
std::vector<OpId> GroupChanges::FirstOf(const std::vector<OpId>& group,
                                        const std::vector<Copy>& chains) {
  std::vector<OpId> first = {group[0]};
  for (const Copy& copy : chains) {
    if (Has(first, copy.from) && !Has(first, copy.to)) first.push_back(copy.to);
  }
  return first;
}

// Other configurations for the group, where they fit, of the level.
ChangeSet GroupChanges::Split(const Wanted& wanted, const std::vector<Copy>& chains) {
  ChangeSet changed{wanted.group, {}};
  for (const Copy& copy : chains) changed.ops.push_back(copy.to);
  const std::vector<OpId> first = FirstOf(wanted.group, chains);
  std::optional<int64_t> before;
  int64_t most = 0;
  if (HasLevels(wanted.kind)) before = costs_->Of(wanted.strategy, first);
  if (before.has_value()) most = MostOfLevels(*before, wanted.kind);
  for (const ParallelConfig& config : SplitsOf(wanted.group[0], wanted)) {
    if (state_.IsStopped()) break;
    std::vector<OperatorDecision> decisions = SwapIn(wanted, config, chains);
    size_t level = 0;
    if (before.has_value()) {
      level = LevelOf(costs_->Of(wanted.strategy, first, most), *before, wanted.kind);
    }
    std::for_each(decisions.rbegin(), decisions.rend(),
                  [&](OperatorDecision& one) { Swap(wanted.strategy, one); });
    if (level != wanted.level) continue;
    auto& proposal = changed.proposals.emplace_back();
    for (OperatorDecision& decision : decisions) proposal.emplace_back(std::move(decision));
  }
  return changed;
}

// Decides for the group, and for what copies it, until Swap of all in reverse order: these then are the
// decisions, and the strategy is as before.
std::vector<OperatorDecision> GroupChanges::SwapIn(const Wanted& wanted,
                                                   const ParallelConfig& config,
                                                   const std::vector<Copy>& chains) const {
  std::vector<OperatorDecision> decisions;
  const auto decide = [&](OpId op, ParallelConfig own) {
    Swap(wanted.strategy, decisions.emplace_back(OperatorDecision{op, std::move(own)}));
  };
  for (OpId op : wanted.group) {
    if (space_.Fits(op, config)) decide(op, config);
  }
  for (const auto& [from, to, of_blocks] : chains) {
    auto copied = (of_blocks ? WithProducersBlocks : WithSameResultSplit)(
        space_, from, wanted.strategy.configs[from.index()], to);
    if (copied.has_value()) decide(to, *std::move(copied));
  }
  return decisions;
}

// Free operators behind those of the group: those that are like each other and have one configuration,
// for as many as half of the group at least.
std::vector<GroupChanges::Readers> GroupChanges::ReadersOf(const Wanted& wanted) const {
  std::vector<Readers> found;
  const auto& configs = wanted.strategy.configs;
  for (OpId op : wanted.group) {
    for (OpId reader : AnchorsBehind(graph_, op)) {
      if (!groups_.IsFree(reader) || Has(wanted.group, reader)) continue;
      const std::span<const OpId> like = space_.AllLike(reader);
      const auto alike = std::find_if(found.begin(), found.end(), [&](const Readers& one) {
        return configs[one.ops[0].index()] == configs[reader.index()] &&
               std::find(like.begin(), like.end(), one.ops[0]) != like.end();
      });
      if (alike == found.end()) {
        found.push_back({op, {reader}});
      } else if (!Has(alike->ops, reader)) {
        alike->ops.push_back(reader);
      }
    }
  }
  std::erase_if(found,
                [&](const Readers& one) { return 2 * one.ops.size() < wanted.group.size(); });
  return found;
}

std::vector<ChangeSet> GroupChanges::SplitWithReaders(const Wanted& wanted) {
  std::vector<ChangeSet> sets;
  if (!costs_.has_value()) return sets;
  for (const Readers& readers : ReadersOf(wanted)) sets.push_back(SplitWith(wanted, readers));
  return sets;
}

// Splits of both that together cost no more than those there are, the cheapest first.
ChangeSet GroupChanges::SplitWith(const Wanted& wanted, const Readers& readers) {
  ChangeSet changed{wanted.group, {}};
  changed.ops.insert(changed.ops.end(), readers.ops.begin(), readers.ops.end());
  Strategy& strategy = wanted.strategy;
  const OpId both[] = {readers.maker, readers.ops[0]};
  const std::optional<int64_t> before = costs_->Of(strategy, both);
  if (!before.has_value()) return changed;
  struct Pair {
    int64_t cost;
    ParallelConfig of_group, of_readers;
  };
  std::vector<Pair> pairs;
  for (const ParallelConfig& config : NearSplitsOf(both[0], strategy)) {
    if (state_.IsStopped()) return changed;
    OperatorDecision maker{both[0], config};
    Swap(strategy, maker);
    for (const ParallelConfig& other : NearSplitsOf(both[1], strategy)) {
      OperatorDecision reader{both[1], other};
      Swap(strategy, reader);
      const std::optional<int64_t> after = costs_->Of(strategy, both, *before);
      Swap(strategy, reader);
      if (after.has_value() && *after <= *before) pairs.push_back({*after, config, other});
    }
    Swap(strategy, maker);
  }
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const Pair& a, const Pair& b) { return a.cost < b.cost; });
  if (pairs.size() > kMostWithReaders) pairs.resize(kMostWithReaders);
  for (const Pair& pair : pairs) {
    auto& proposal = changed.proposals.emplace_back();
    for (OpId op : wanted.group) {
      if (space_.Fits(op, pair.of_group)) proposal.push_back(OperatorDecision{op, pair.of_group});
    }
    for (OpId op : readers.ops) {
      if (space_.Fits(op, pair.of_readers))
        proposal.push_back(OperatorDecision{op, pair.of_readers});
    }
  }
  return changed;
}

// Those that the group's operators read as the same operand lie alike; a set for each operand.
std::vector<ChangeSet> GroupChanges::PlaceWeights(const Wanted& wanted) const {
  std::vector<ChangeSet> sets;
  for (size_t operand = 0; operand < graph_.op(wanted.group[0]).inputs.size(); ++operand) {
    ChangeSet& set = sets.emplace_back(ChangeSet{wanted.group, {}});
    for (size_t k = 0; k < kEvenPlacements; ++k) {
      std::vector<Decision> proposal;
      bool is_other = false;
      for (OpId op : wanted.group) {
        const int32_t weight = weight_of_[graph_.op(op).inputs[operand].index()];
        if (weight < 0) continue;
        const WeightDecision placed{weight, EvenPlacement(space_, weight, k)};
        is_other |= DecisionIn(wanted.strategy, SubjectOf(placed)) != Decision(placed);
        proposal.emplace_back(placed);
      }
      if (is_other) set.proposals.push_back(std::move(proposal));
    }
  }
  return sets;
}

}  // namespace partita
