#include "planner/search/improve_groups.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "graph/parallel/decision.h"
#include "planner/space/moves.h"
#include "planner/space/neighbour_splits.h"

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
int64_t LittleFor(Change kind) {
  const bool has_many = kind == Change::kTraded || kind == Change::kTradedPair;
  return has_many ? kLittleForMany : kLittle;
}

// A part of a search ends where so many evaluations have not gained one in kLittleGain.
constexpr int64_t kPatience = 100;
constexpr int64_t kLittleGain = 500;

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
        tried_(graph_.ops().size() * kGroupings * kKinds, -1),
        changed_(graph_.ops().size(), 0) {}

  // Where a change improved the strategy, what it may have affected is tried first, then all else.
  WalkPoint Run() && {
    for (bool near = true;;) {
      const int64_t changes = changes_;
      if (!TryAll(near)) return std::move(at_);
      const bool improved = changes_ > changes;
      if (!improved && !near) return std::move(at_);
      near = improved;
    }
  }

 private:
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
  // Those of all groups, in the order in which they are tried.
  std::vector<Attempt> AttemptsOn(const std::vector<OperatorGroup>& groups) const {
    const std::vector<Nanos> critical = CriticalTimes();
    std::vector<Attempt> attempts;
    for (const OperatorGroup& group : groups) {
      Nanos time;
      for (OpId op : group.ops) time += critical[op.index()];
      for (Change kind : kChanges) {
        attempts.push_back({kind, &group, time, time * LittleFor(kind) <= at_.time});
      }
    }
    std::stable_sort(attempts.begin(), attempts.end(), [](const Attempt& a, const Attempt& b) {
      const auto order = [](const Attempt& one) {
        const bool is_late = one.is_little && one.kind >= Change::kTraded;
        return std::tuple(one.group->is_repeat, is_late, one.group->grouping, one.is_little,
                          one.kind, Nanos(0) - one.critical);
      };
      return order(a) < order(b);
    });
    return attempts;
  }

  // Until one improves the strategy; of those that were tried before, `near`: what the changes since then
  // are next to. These return false where the search stopped or the budget is spent.
  bool TryAll(bool near) {
    const int64_t changes = changes_;
    const std::vector<OperatorGroup> groups = groups_.Of(at_.strategy);
    for (const Attempt& attempt : AttemptsOn(groups)) {
      const std::vector<OpId>& ops = attempt.group->ops;
      int64_t& tried =
          tried_[(ops[0].index() * kGroupings + static_cast<size_t>(attempt.group->grouping)) *
                     kKinds +
                 static_cast<size_t>(attempt.kind)];
      if (tried >= (near ? LastChangeNear(ops) : changes_)) continue;
      tried = changes_;
      if (!TryGroup(attempt.kind, ops)) return false;
      if (changes_ > changes) break;
    }
    return true;
  }

  bool TryGroup(Change kind, const std::vector<OpId>& group) {
    switch (kind) {
      case Change::kNeighbours:
        return Split(group, NeighbourSplits(space_, at_.strategy, group[0]), {});
      case Change::kTraded:
        return Split(group, TradedSplits(space_, at_.strategy, group[0]), {});
      case Change::kShifted:
        return Split(group, ShiftedSplits(space_, at_.strategy, group[0]), {});
      case Change::kWeights:
        return PlaceWeights(group);
      case Change::kShiftedChain:
        return SplitWith(group, ShiftedSplits(space_, at_.strategy, group[0]), ChainsBehind(group));
      case Change::kTradedPair:
        return SplitWith(group, TradedSplits(space_, at_.strategy, group[0]), PairsBehind(group));
    }
    return true;
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

  bool SplitWith(const std::vector<OpId>& group, const std::vector<ParallelConfig>& configs,
                 const std::vector<Copy>& behind) {
    return behind.empty() || Split(group, configs, behind);
  }

  // The best of these configurations for the group, where they fit.
  bool Split(const std::vector<OpId>& group, const std::vector<ParallelConfig>& configs,
             const std::vector<Copy>& chains) {
    std::vector<OpId> changed = group;
    for (const Copy& copy : chains) changed.push_back(copy.to);
    return Try(changed, configs.size(), [&](size_t k, Strategy& proposal) {
      for (OpId op : group) {
        if (space_.Fits(op, configs[k])) Decide(graph_, proposal, OperatorDecision{op, configs[k]});
      }
      for (const auto& [from, to, of_blocks] : chains) {
        auto config = (of_blocks ? WithProducersBlocks : WithSameResultSplit)(
            space_, from, proposal.configs[from.index()], to);
        if (config.has_value()) Decide(graph_, proposal, OperatorDecision{to, *std::move(config)});
      }
    });
  }

  // Those that the group's operators read as the same operand lie alike.
  bool PlaceWeights(const std::vector<OpId>& group) {
    for (size_t operand = 0; operand < graph_.op(group[0]).inputs.size(); ++operand) {
      std::vector<std::vector<WeightDecision>> changes(kEvenPlacements);
      for (OpId op : group) {
        const int32_t weight = weight_of_[graph_.op(op).inputs[operand].index()];
        for (size_t k = 0; weight >= 0 && k < kEvenPlacements; ++k) {
          const WeightDecision placed{weight, EvenPlacement(space_, weight, k)};
          const Decision now = DecisionIn(at_.strategy, SubjectOf(placed));
          if (now != Decision(placed)) changes[k].push_back(placed);
        }
      }
      std::erase_if(changes, [](const auto& change) { return change.empty(); });
      const bool goes_on = Try(group, changes.size(), [&](size_t k, Strategy& proposal) {
        for (const WeightDecision& placed : changes[k]) Decide(graph_, proposal, placed);
      });
      if (!goes_on) return false;
    }
    return true;
  }

  bool GainsLittle() {
    if (!problem_.is_part) return false;
    if (gained_at_ < 0 || (gained_time_ - at_.time) * kLittleGain >= gained_time_) {
      gained_at_ = state_.evaluations();
      gained_time_ = at_.time;
    }
    return state_.evaluations() - gained_at_ >= kPatience;
  }

  // Goes to the best of so many changes of these operators, if one is an improvement.
  bool Try(const std::vector<OpId>& changed, size_t count,
           absl::FunctionRef<void(size_t, Strategy&)> change) {
    if (state_.evaluations() >= end_ || GainsLittle()) return false;
    const auto make = [&](size_t k) {
      Strategy proposal = at_.strategy;
      change(k, proposal);
      return proposal;
    };
    Fastest fastest = FastestOf(count, make, at_, problem_, state_);
    if (fastest.point.has_value()) {
      at_ = *std::move(fastest.point);
      ++changes_;
      for (OpId op : changed) changed_[op.index()] = changes_;
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
  // Those when a kind of change was last tried on a group; -1: never. By its first operator, its
  // grouping, and the kind.
  std::vector<int64_t> tried_;
  std::vector<int64_t> changed_;  // indexed by OpId: the last of them that changed it; 0: none
};

}  // namespace

WalkPoint ImproveGroups(const SearchProblem& problem, SearchState& state, WalkPoint from,
                        std::span<const Grouping> groupings, int64_t budget) {
  if (from.excess_memory > 0) return from;
  return GroupImprover(problem, state, std::move(from), groupings, budget).Run();
}

}  // namespace partita
