#include "planner/search/improve_groups.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "graph/parallel/decision.h"
#include "planner/search/local_costs.h"
#include "planner/space/moves.h"
#include "planner/space/neighbour_splits.h"
#include "planner/space/recurrent_layers.h"

namespace partita {
namespace {

// What may change of a group, in the order in which it is tried.
enum class Change { kNeighbours, kShifted, kShiftedChain, kTraded, kTradedPair, kWeights };
constexpr Change kChanges[] = {Change::kNeighbours, Change::kShifted,    Change::kShiftedChain,
                               Change::kTraded,     Change::kTradedPair, Change::kWeights};
constexpr size_t kKinds = std::size(kChanges);

// A group for which the step waits this part of its time, or less, comes after all others, and from
// trades on after those of all groupings; for kinds that there are many changes of it is a larger part.
constexpr int64_t kLittle = 256, kLittleForMany = 32;
bool HasMany(Change kind) { return kind == Change::kTraded || kind == Change::kTradedPair; }
int64_t LittleFor(Change kind) { return HasMany(kind) ? kLittleForMany : kLittle; }

// Devices from which on local costs take little beside evaluations.
constexpr int kManyDevices = 16;
// Changes come by what the group's first operator costs by these after them, up to so many times what it
// costs before: of kinds that there are many changes of, and of the others. In searches for models of
// convolutions one in ten of those that cost less was an improvement, one in 125 of those that cost up
// to half as much again, one in 2,500 beyond that.
struct Level {
  double of_many, of_others;
};
constexpr Level kLevels[] = {{1, 1}, {1.1, 5}, {1.5, 5}};
// Where recurrent layers work at the same time, as stages, these costs tell less.
constexpr Level kLevelsOfRecurrent[] = {{1.75, std::numeric_limits<double>::infinity()}};

// Attempts that are made one after another: changes of a level, of what the last changes may have
// affected, or of all. What costs most is tried of all at once.
struct Pass {
  size_t level = 0;
  bool near = true;
};

// A part of a search ends where so many evaluations have not gained one in kLittleGain.
constexpr int64_t kPatience = 100;
constexpr int64_t kLittleGain = 500;

// Proposals that are evaluated ahead, for each thread.
constexpr int64_t kTrialsOfThread = 8;

// Tries one kind of change after the other on all groups of a strategy.
class GroupImprover {
 public:
  GroupImprover(const SearchProblem& problem, SearchState& state, WalkPoint from,
                std::span<const Grouping> groupings, int64_t budget)
      : problem_(problem),
        space_(problem.space),
        graph_(space_.graph()),
        state_(state),
        at_(std::move(from)),
        end_(state.evaluations() + budget),
        groups_(space_, groupings),
        weight_of_(FreeWeights(space_)),
        levels_(LevelsOf(graph_)),
        tried_(graph_.ops().size() * kGroupings * kKinds * (levels_.size() + 1), -1),
        changed_(graph_.ops().size(), 0) {
    if (space_.devices() >= kManyDevices) costs_.emplace(problem.evaluator);
  }

  // Where a change improved the strategy, what it may have affected is tried first, then all else.
  WalkPoint Run() && {
    const size_t last = costs_.has_value() ? levels_.size() : 0;
    for (Pass pass; pass.level <= last;) {
      const int64_t changes = changes_;
      if (!TryAll(pass)) break;
      if (changes_ > changes) {
        pass = {};
      } else if (pass.near) {
        pass.near = false;
      } else {
        const size_t next = pass.level + 1;
        pass = {next, next < levels_.size()};
      }
    }
    return std::move(at_);
  }

 private:
  static std::span<const Level> LevelsOf(const Graph& graph) {
    if (RecurrentLayers(graph).empty()) return kLevels;
    return kLevelsOfRecurrent;
  }
  // Indexed by TensorId: the weight, where it may be decided; otherwise -1.
  static std::vector<int32_t> FreeWeights(const SearchSpace& space) {
    std::vector<int32_t> weight_of(space.graph().tensors().size(), -1);
    for (int32_t weight : space.weights()) {
      weight_of[space.graph().weights()[static_cast<size_t>(weight)].tensor.index()] = weight;
    }
    return weight_of;
  }

  // The last change of the group and of the operators around it.
  int64_t LastChangeNear(const std::vector<OpId>& group) const {
    int64_t last = 0;
    const auto raise = [&](OpId op) {
      const OpId anchor = graph_.op(op).anchor;
      if (anchor != kNoOp) last = std::max(last, changed_[anchor.index()]);
    };
    for (OpId op : group) {
      raise(op);
      for (TensorId input : graph_.op(op).inputs) {
        for (OpId maker : graph_.producers(input)) raise(maker);
      }
      for (TensorId output : graph_.op(op).outputs) {
        for (OpId reader : graph_.consumers(output)) raise(reader);
      }
    }
    return last;
  }

  // Indexed by OpId of anchors: how long the step waits for the operator, for those that follow it,
  // and for what they read and make. All 0 where that is not known.
  std::vector<Nanos> CriticalTimes() const {
    std::vector<Nanos> critical(graph_.ops().size());
    const Evaluator& evaluator = problem_.evaluator;
    const auto times = evaluator.CriticalTimes(at_.strategy, problem_.bucket_bytes);
    if (!times.ok()) return critical;
    const auto time_of = [&](auto subject) {
      return (*times)[static_cast<size_t>(evaluator.distances().SubjectOf(subject))];
    };
    for (const Operator& op : graph_.ops()) {
      if (op.anchor == kNoOp) continue;
      Nanos& time = critical[op.anchor.index()];
      time += time_of(op.id);
      for (TensorId input : op.inputs) time += time_of(input);
      for (TensorId output : op.outputs) time += time_of(output);
    }
    return critical;
  }

  // A kind of change of a group for which the step waits so long.
  struct Attempt {
    Change kind;
    const OperatorGroup* group;
    Nanos critical;
    bool is_little = false;
  };
  // Finds those of all groups, in the order in which they are tried.
  void FindAttempts() {
    if (attempts_at_ == changes_) return;
    attempts_at_ = changes_;
    groups_now_ = groups_.Of(at_.strategy);
    const std::vector<Nanos> critical = CriticalTimes();
    attempts_.clear();
    for (const OperatorGroup& group : groups_now_) {
      Nanos time;
      for (OpId op : group.ops) time += critical[op.index()];
      for (Change kind : kChanges) {
        attempts_.push_back({kind, &group, time, time * LittleFor(kind) <= at_.time});
      }
    }
    std::stable_sort(attempts_.begin(), attempts_.end(), [](const Attempt& a, const Attempt& b) {
      const auto order = [](const Attempt& one) {
        const bool is_late = one.is_little && one.kind >= Change::kTraded;
        return std::tuple(one.group->is_repeat, is_late, one.group->grouping, one.is_little,
                          one.kind, Nanos(0) - one.critical);
      };
      return order(a) < order(b);
    });
  }

  // The changes there were when such an attempt was made last; -1: never.
  int64_t& TriedAt(const Attempt& attempt, size_t level) {
    const size_t group =
        attempt.group->ops[0].index() * kGroupings + static_cast<size_t>(attempt.group->grouping);
    return tried_[(group * kKinds + static_cast<size_t>(attempt.kind)) * (levels_.size() + 1) +
                  level];
  }

  // Changes of some operators, of which the best is gone to.
  struct Changed {
    std::vector<OpId> ops;
    std::vector<std::vector<Decision>> proposals;
  };
  // An attempt with its changes, of which one set is tried after another; and what these take, in the
  // order of all proposals, where that was found ahead.
  struct Prepared {
    const Attempt* attempt;
    std::vector<Changed> sets;
    std::vector<Evaluation> ahead = {};

    size_t proposals() const {
      size_t count = 0;
      for (const Changed& set : sets) count += set.proposals.size();
      return count;
    }
  };

  // Until one improves the strategy. These return false where the search stopped or the budget is spent.
  // Few attempts do: where there are several threads, what those behind the first one propose is
  // evaluated with it, and those behind them are prepared meanwhile. What is found is the same.
  bool TryAll(Pass pass) {
    const int64_t changes = changes_;
    FindAttempts();
    level_ = pass.level;
    size_t next = 0;
    const int threads = state_.ThreadsOfTrials();
    most_ahead_ = threads > 1 ? kTrialsOfThread * threads : 0;
    std::vector<Prepared> some = PrepareSome(pass, next), then;
    while (!some.empty()) {
      if (threads > 1) EvaluateAhead(some, [&] { then = PrepareSome(pass, next); });
      for (Prepared& prepared : some) {
        TriedAt(*prepared.attempt, pass.level) = changes_;
        if (!TryPrepared(prepared)) return false;
        if (changes_ > changes) return true;
      }
      some = threads > 1 ? std::exchange(then, {}) : PrepareSome(pass, next);
    }
    return true;
  }

  // The next attempts, the first one at least.
  std::vector<Prepared> PrepareSome(Pass pass, size_t& next) {
    std::vector<Prepared> some;
    int64_t count = 0;  // of proposals
    while (next < attempts_.size() && (some.empty() || count < most_ahead_)) {
      const Attempt& attempt = attempts_[next++];
      const std::vector<OpId>& ops = attempt.group->ops;
      const bool is_tried =
          TriedAt(attempt, pass.level) >= (pass.near ? LastChangeNear(ops) : changes_);
      if (is_tried) continue;
      some.push_back({&attempt, ChangesOf(attempt)});
      count += static_cast<int64_t>(some.back().proposals());
    }
    return some;
  }

  // Evaluates what the attempts propose, but for the last one's if they are many.
  void EvaluateAhead(std::vector<Prepared>& some, absl::FunctionRef<void()> meanwhile) {
    std::vector<Strategy> strategies;
    const int64_t most = std::min(most_ahead_, state_.left());
    size_t whole = 0;  // attempts
    for (const Prepared& prepared : some) {
      if (static_cast<int64_t>(strategies.size() + prepared.proposals()) > most) break;
      for (const Changed& set : prepared.sets) {
        for (size_t k = 0; k < set.proposals.size(); ++k) strategies.push_back(StrategyOf(set, k));
      }
      ++whole;
    }
    std::vector<SearchTrial> trials;
    for (const Strategy& strategy : strategies) trials.push_back({&strategy, &at_.name, at_.time});
    const std::vector<Evaluation> evaluations = state_.EvaluateAll(trials, meanwhile);
    auto begin = evaluations.begin();
    for (Prepared& prepared : std::span(some).first(whole)) {
      const auto own = static_cast<std::ptrdiff_t>(prepared.proposals());
      prepared.ahead.assign(begin, begin + own);
      begin += own;
    }
  }

  Strategy StrategyOf(const Changed& set, size_t proposal) const {
    Strategy changed = at_.strategy;
    Decide(graph_, changed, set.proposals[proposal]);
    return changed;
  }

  bool TryPrepared(Prepared& prepared) {
    std::span<const Evaluation> ahead = prepared.ahead;
    for (size_t s = 0; s < prepared.sets.size(); ++s) {
      const Changed& set = prepared.sets[s];
      const size_t count = set.proposals.size();
      const int64_t changes = changes_;
      if (!Try(set, ahead.empty() ? ahead : ahead.first(count))) return false;
      if (!ahead.empty()) ahead = ahead.subspan(count);
      if (changes_ == changes || s + 1 == prepared.sets.size()) continue;
      prepared.sets = ChangesOf(*prepared.attempt);
      ahead = {};
    }
    return true;
  }

  std::vector<Changed> ChangesOf(const Attempt& attempt) {
    const std::vector<OpId>& group = attempt.group->ops;
    kind_ = attempt.kind;
    if (level_ > 0 && !HasLevels(kind_)) return {};
    if (kind_ == Change::kWeights) return PlaceWeights(group);
    const bool is_chained = kind_ == Change::kShiftedChain || kind_ == Change::kTradedPair;
    std::vector<Copy> behind;
    if (kind_ == Change::kShiftedChain) behind = ChainsBehind(group);
    if (kind_ == Change::kTradedPair) behind = PairsBehind(group);
    std::vector<Changed> sets;
    if (!is_chained || !behind.empty()) sets.push_back(Split(group, SplitsOf(group[0]), behind));
    return sets;
  }

  // Configurations of an operator by the kind of change at hand.
  std::vector<ParallelConfig> SplitsOf(OpId op) const {
    if (kind_ == Change::kNeighbours) return NeighbourSplits(space_, at_.strategy, op);
    return HasMany(kind_) ? TradedSplits(space_, at_.strategy, op)
                          : ShiftedSplits(space_, at_.strategy, op);
  }

  // An operator whose result is split and placed as that of another one; or, of blocks, whose parts find
  // what they read of the other's result where that leaves it.
  struct Copy {
    OpId from, to;
    bool of_blocks = false;
  };
  std::vector<Copy> ChainsBehind(const std::vector<OpId>& group) const {
    std::vector<Copy> chains;
    for (OpId op : group) {
      for (OpId behind : ChainBehind(graph_, op)) {
        if (groups_.IsFree(behind)) chains.push_back({op, behind});
      }
    }
    return chains;
  }

  // The same, and the operators behind the chains that are not of the group.
  std::vector<Copy> PairsBehind(const std::vector<OpId>& group) const {
    std::vector<Copy> pairs = ChainsBehind(group);
    for (OpId op : group) {
      for (const auto& [maker, reader] : ReadersBehind(graph_, op)) {
        const bool is_own = std::find(group.begin(), group.end(), reader) != group.end();
        if (groups_.IsFree(reader) && !is_own) pairs.push_back({maker, reader, true});
      }
    }
    return pairs;
  }

  // These configurations for the group, where they fit, of the level at hand.
  Changed Split(const std::vector<OpId>& group, const std::vector<ParallelConfig>& configs,
                const std::vector<Copy>& chains) {
    Changed changed{group, {}};
    for (const Copy& copy : chains) changed.ops.push_back(copy.to);
    const std::vector<OpId> first = FirstOf(group, chains);
    std::optional<int64_t> before;
    if (HasLevels(kind_)) before = costs_->Of(at_.strategy, first);
    for (size_t k = 0; k < configs.size() && !state_.IsStopped(); ++k) {
      std::vector<OperatorDecision> decisions = SwapIn(group, configs[k], chains);
      const size_t level =
          before.has_value() ? LevelOf(costs_->Of(at_.strategy, first), *before) : 0;
      std::for_each(decisions.rbegin(), decisions.rend(), [this](auto& one) { Swap(one); });
      if (level != level_) continue;
      auto& proposal = changed.proposals.emplace_back();
      for (OperatorDecision& decision : decisions) proposal.emplace_back(std::move(decision));
    }
    return changed;
  }

  void Swap(OperatorDecision& decision) {
    std::swap(at_.strategy.configs[decision.op.index()], decision.config);
  }

  // Decides for the group, and for what copies it, until Swap of all in reverse order: these then are the
  // decisions, and the strategy is as before.
  std::vector<OperatorDecision> SwapIn(const std::vector<OpId>& group, const ParallelConfig& config,
                                       const std::vector<Copy>& chains) {
    std::vector<OperatorDecision> decisions;
    const auto decide = [&](OpId op, ParallelConfig wanted) {
      Swap(decisions.emplace_back(OperatorDecision{op, std::move(wanted)}));
    };
    for (OpId op : group) {
      if (space_.Fits(op, config)) decide(op, config);
    }
    for (const auto& [from, to, of_blocks] : chains) {
      auto copied = (of_blocks ? WithProducersBlocks : WithSameResultSplit)(
          space_, from, at_.strategy.configs[from.index()], to);
      if (copied.has_value()) decide(to, *std::move(copied));
    }
    return decisions;
  }

  // The group's first operator, and what changes with that.
  static std::vector<OpId> FirstOf(const std::vector<OpId>& group,
                                   const std::vector<Copy>& chains) {
    std::vector<OpId> first = {group[0]};
    for (const Copy& copy : chains) {
      const auto has = [&](OpId op) {
        return std::find(first.begin(), first.end(), op) != first.end();
      };
      if (has(copy.from) && !has(copy.to)) first.push_back(copy.to);
    }
    return first;
  }

  static double BoundOf(const Level& level, Change kind) {
    return HasMany(kind) ? level.of_many : level.of_others;
  }
  // Whether changes of the kind have several levels; otherwise all are of the first.
  bool HasLevels(Change kind) const {
    return costs_.has_value() && kind != Change::kWeights &&
           std::isfinite(BoundOf(levels_[0], kind));
  }
  // Of a change after which they cost so much; the last one where that is not known.
  size_t LevelOf(std::optional<int64_t> after, int64_t before) const {
    if (!after.has_value()) return levels_.size();
    const double times = static_cast<double>(*after) / std::max(1.0, static_cast<double>(before));
    const auto level = std::find_if(levels_.begin(), levels_.end(),
                                    [&](const Level& one) { return times <= BoundOf(one, kind_); });
    return static_cast<size_t>(level - levels_.begin());
  }

  // Those that the group's operators read as the same operand lie alike; a set for each operand.
  std::vector<Changed> PlaceWeights(const std::vector<OpId>& group) {
    std::vector<Changed> sets;
    for (size_t operand = 0; operand < graph_.op(group[0]).inputs.size(); ++operand) {
      Changed& set = sets.emplace_back(Changed{group, {}});
      for (size_t k = 0; k < kEvenPlacements; ++k) {
        std::vector<Decision> proposal;
        bool is_other = false;
        for (OpId op : group) {
          const int32_t weight = weight_of_[graph_.op(op).inputs[operand].index()];
          if (weight < 0) continue;
          const WeightDecision placed{weight, EvenPlacement(space_, weight, k)};
          is_other |= DecisionIn(at_.strategy, SubjectOf(placed)) != Decision(placed);
          proposal.emplace_back(placed);
        }
        if (is_other) set.proposals.push_back(std::move(proposal));
      }
    }
    return sets;
  }

  bool GainsLittle() {
    if (!problem_.is_part) return false;
    if (gained_at_ < 0 || (gained_time_ - at_.time) * kLittleGain >= gained_time_) {
      gained_at_ = state_.evaluations();
      gained_time_ = at_.time;
    }
    return state_.evaluations() - gained_at_ >= kPatience;
  }

  // Goes to the best of the changes, if one is an improvement. `ahead`: what they take, or nothing.
  bool Try(const Changed& set, std::span<const Evaluation> ahead) {
    if (state_.evaluations() >= end_ || GainsLittle()) return false;
    const auto make = [&](size_t k) { return StrategyOf(set, k); };
    Fastest fastest = ahead.empty() ? FastestOf(set.proposals.size(), make, at_, problem_, state_)
                                    : FastestOfEvaluated(make, ahead, at_, problem_, state_);
    if (fastest.point.has_value()) {
      at_ = *std::move(fastest.point);
      ++changes_;
      for (OpId op : set.ops) changed_[op.index()] = changes_;
      state_.CountAccepted(0, at_.name, "group", at_.time);
    }
    return fastest.goes_on;
  }

  const SearchProblem& problem_;
  const SearchSpace& space_;
  const Graph& graph_;
  SearchState& state_;
  WalkPoint at_;
  const int64_t end_;
  const OperatorGroups groups_;
  const std::vector<int32_t> weight_of_;  // indexed by TensorId
  int64_t changes_ = 0;                   // that improved
  // The evaluations at the last gain that counts, and the time then; -1: at the start.
  int64_t gained_at_ = -1;
  Nanos gained_time_;
  const std::span<const Level> levels_;
  std::optional<LocalCosts> costs_;  // where devices are many
  size_t level_ = 0;                 // Pass::level of the pass at hand
  int64_t most_ahead_ = 0;  // proposals that are evaluated ahead, but for those of one attempt
  Change kind_ = Change::kNeighbours;  // of the attempt at hand
  // Groups and attempts of the strategy after so many changes; -1: not found yet.
  int64_t attempts_at_ = -1;
  std::vector<OperatorGroup> groups_now_;
  std::vector<Attempt> attempts_;
  std::vector<int64_t> tried_;    // as TriedAt finds them
  std::vector<int64_t> changed_;  // indexed by OpId: the last of them that changed it; 0: none
};

}  // namespace

WalkPoint ImproveGroups(const SearchProblem& problem, SearchState& state, WalkPoint from,
                        std::span<const Grouping> groupings, int64_t budget) {
  if (from.excess_memory > 0) return from;
  return GroupImprover(problem, state, std::move(from), groupings, budget).Run();
}

}  // namespace partita
