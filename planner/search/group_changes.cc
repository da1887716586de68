#include "planner/search/group_changes.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "planner/space/moves.h"
#include "planner/space/neighbour_splits.h"
#include "planner/space/recurrent_layers.h"

namespace partita {
namespace {

// Devices from which on changes come in levels: an evaluation takes much more than local costs do.
constexpr int kManyDevices = 16;
// Pairs of an operator's split and its readers' that are evaluated: those that cost least.
constexpr size_t kMostWithReaders = 4;
// Part of what the step takes for an operator in the mean that is little.
constexpr double kLittleOfMean = 0.2;

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
      has_recurrent_layers_(!RecurrentLayers(graph_).empty()),
      in_best_order_(problem.in_best_order),
      weight_of_(FreeWeights(space_)),
      little_(kLittleOfMean / static_cast<double>(std::max<size_t>(1, graph_.anchors().size()))),
      costs_(problem.evaluator),
      levels_(space_.devices() < kManyDevices ? std::vector<Level>()
                                              : LevelsOf(has_recurrent_layers_, little_)) {}

// Bounds from what searches tried. For models of convolutions nearly all that improved cost little more:
// one in ten did; beyond, up to half as much again, one in 125, then one in 2,500. Where recurrent layers
// work at the same time, as stages, costs tell little of where these are: layers that were shifted, and
// cost 1.5 times as much, made steps faster. But none of the trades did that added a fiftieth to the
// step, and no splits of neighbours that added an eighth.
std::vector<GroupChanges::Level> GroupChanges::LevelsOf(bool has_recurrent_layers, double little) {
  if (has_recurrent_layers) return {{{1. / 8, 0}, {1. / 50, 1.75}, {1. / 50, 0}}};
  const auto level = [little](double of_many, double of_few) {
    return Level{{little, of_few}, {little, of_few}, {little, of_many}};
  };
  return {level(0, 0), level(1.1, 5), level(1.5, 5)};
}

// Measured: readers before trades bring nmt on 64 devices within 1 % of the best known step in half the
// time, but end AlexNet's descents there 3 % above it, and those of nmt in best orders on pods of 1,024
// devices 2 %.
int GroupChanges::PlaceOf(Change kind) const {
  const bool is_early = kind == Change::kReaders && has_recurrent_layers_ && !in_best_order_;
  return is_early ? 2 * static_cast<int>(Change::kTraded) - 1 : 2 * static_cast<int>(kind);
}

std::vector<int32_t> GroupChanges::FreeWeights(const SearchSpace& space) {
  std::vector<int32_t> weight_of(space.graph().tensors().size(), -1);
  for (int32_t weight : space.weights()) {
    weight_of[space.graph().weights()[static_cast<size_t>(weight)].tensor.index()] = weight;
  }
  return weight_of;
}

std::vector<ChangeSet> GroupChanges::Of(Change kind, size_t level, const std::vector<OpId>& group,
                                        Strategy& strategy, Nanos step) {
  const Wanted wanted{kind, level, group, strategy, step};
  if (kind == Change::kWeights) return PlaceWeights(wanted);
  if (level > 0 && !HasLevels(kind)) return {};
  if (kind == Change::kReaders) return SplitWithReaders(wanted);
  const bool is_pair = kind == Change::kResizedPair || kind == Change::kTradedPair;
  const bool is_chained = kind == Change::kShiftedChain || is_pair;
  std::vector<Copy> behind;
  if (kind == Change::kShiftedChain) behind = ChainsBehind(group);
  if (is_pair) behind = PairsBehind(group);
  std::vector<ChangeSet> sets;
  if (!is_chained || !behind.empty()) sets.push_back(Split(wanted, behind));
  return sets;
}

const GroupChanges::Bound& GroupChanges::BoundOf(const Level& level, const Wanted& wanted) {
  if (wanted.kind == Change::kNeighbours) return level.of_neighbours;
  const bool is_shift = wanted.kind == Change::kShifted || wanted.kind == Change::kShiftedChain;
  return is_shift && wanted.group.size() > 1 ? level.of_shifts : level.of_others;
}

// Whether changes of the kind have several levels; otherwise all are of the first.
bool GroupChanges::HasLevels(Change kind) const {
  return !levels_.empty() && kind != Change::kWeights && kind != Change::kReaders;
}

// Level of a change after which the group's first operators cost so much.
size_t GroupChanges::LevelOf(std::optional<int64_t> after, int64_t before,
                             const Wanted& wanted) const {
  if (!after.has_value()) return levels_.size();
  const auto level = std::find_if(levels_.begin(), levels_.end(), [&](const Level& one) {
    return *after <= MostOf(one, before, wanted);
  });
  return static_cast<size_t>(level - levels_.begin());
}

// The most that the group's first operators cost after changes of the level.
int64_t GroupChanges::MostOf(const Level& level, int64_t before, const Wanted& wanted) {
  const Bound& bound = BoundOf(level, wanted);
  return std::max(before + PartOfStep(bound.added, wanted),
                  static_cast<int64_t>(bound.times * static_cast<double>(before)));
}

// Part of the step, for each operator of the group.
int64_t GroupChanges::PartOfStep(double part, const Wanted& wanted) {
  return static_cast<int64_t>(part * static_cast<double>(wanted.step.value()) /
                              static_cast<double>(wanted.group.size()));
}

// Configurations of an operator by the kind of change.
std::vector<ParallelConfig> GroupChanges::SplitsOf(OpId op, const Wanted& wanted) const {
  switch (wanted.kind) {
    case Change::kNeighbours:
      return NeighbourSplits(space_, wanted.strategy, op);
    case Change::kResized:
    case Change::kResizedPair:
      return ResizedSplits(space_, wanted.strategy, op);
    case Change::kTraded:
    case Change::kTradedPair:
      return TradedSplits(space_, wanted.strategy, op);
    default:
      return ShiftedSplits(space_, wanted.strategy, op);
  }
}

// Those traded and those resized, which do not depend on the operators around.
std::vector<ParallelConfig> GroupChanges::OwnSplitsOf(OpId op, const Strategy& strategy) const {
  std::vector<ParallelConfig> splits = TradedSplits(space_, strategy, op);
  std::ranges::move(ResizedSplits(space_, strategy, op), std::back_inserter(splits));
  return splits;
}

// Those of neighbours and, behind them, its own, each once.
std::vector<ParallelConfig> GroupChanges::NearSplitsOf(OpId op, const Strategy& strategy,
                                                       std::span<const ParallelConfig> own) const {
  std::vector<ParallelConfig> splits = NeighbourSplits(space_, strategy, op);
  for (const ParallelConfig& one : own) {
    const bool is_known = std::find(splits.begin(), splits.end(), one) != splits.end();
    if (!is_known) splits.push_back(one);
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
  if (HasLevels(wanted.kind)) before = costs_.Of(wanted.strategy, first);
  if (before.has_value()) {
    most = MostOf(levels_[std::min(wanted.level, levels_.size() - 1)], *before, wanted);
  }
  for (const ParallelConfig& config : SplitsOf(wanted.group[0], wanted)) {
    if (state_.IsStopped()) break;
    std::vector<OperatorDecision> decisions = SwapIn(wanted, config, chains);
    size_t level = 0;
    if (before.has_value()) {
      level = LevelOf(costs_.Of(wanted.strategy, first, most), *before, wanted);
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
  for (const Readers& readers : ReadersOf(wanted)) sets.push_back(SplitWith(wanted, readers));
  return sets;
}

// Splits of both that together cost little more than those there are, or less, the cheapest first.
ChangeSet GroupChanges::SplitWith(const Wanted& wanted, const Readers& readers) {
  ChangeSet changed{wanted.group, {}};
  changed.ops.insert(changed.ops.end(), readers.ops.begin(), readers.ops.end());
  Strategy& strategy = wanted.strategy;
  const OpId both[] = {readers.maker, readers.ops[0]};
  const std::optional<int64_t> before = costs_.Of(strategy, both);
  if (!before.has_value()) return changed;
  const int64_t most = *before + PartOfStep(little_, wanted);
  struct Pair {
    int64_t cost;
    ParallelConfig of_group, of_readers;
  };
  std::vector<Pair> pairs;
  const std::vector<ParallelConfig> of_maker = OwnSplitsOf(both[0], strategy),
                                    of_reader = OwnSplitsOf(both[1], strategy);
  for (const ParallelConfig& config : NearSplitsOf(both[0], strategy, of_maker)) {
    if (state_.IsStopped()) return changed;
    OperatorDecision maker{both[0], config};
    Swap(strategy, maker);
    for (const ParallelConfig& other : NearSplitsOf(both[1], strategy, of_reader)) {
      OperatorDecision reader{both[1], other};
      Swap(strategy, reader);
      const std::optional<int64_t> after = costs_.Of(strategy, both, most);
      Swap(strategy, reader);
      if (after.has_value() && *after <= most) pairs.push_back({*after, config, other});
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
        is_other |= Changes(wanted.strategy, placed);
        proposal.emplace_back(placed);
      }
      if (is_other) set.proposals.push_back(std::move(proposal));
    }
  }
  return sets;
}

}  // namespace partita
