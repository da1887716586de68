#include "planner/search/improve_groups.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "graph/parallel/decision.h"
#include "planner/space/like_operators.h"
#include "planner/space/moves.h"
#include "planner/space/neighbour_splits.h"

namespace partita {
namespace {

// What may change of a group, in the order in which it is tried.
enum class Change { kNeighbours, kShifted, kShiftedChain, kTraded, kWeights };
constexpr Change kChanges[] = {Change::kNeighbours, Change::kShifted, Change::kShiftedChain,
                               Change::kTraded, Change::kWeights};
constexpr size_t kKinds = std::size(kChanges);

// Tries one kind of change after the other on all groups of a strategy.
class GroupImprover {
 public:
  GroupImprover(const SearchProblem& problem, SearchState& state, WalkPoint from, Grouping grouping,
                int64_t budget)
      : problem_(problem),
        space_(problem.space),
        graph_(space_.graph()),
        state_(state),
        at_(std::move(from)),
        end_(state.evaluations() + budget),
        class_of_(FreeClasses(space_, grouping)),
        weight_of_(FreeWeights(space_)),
        tried_(graph_.ops().size() * kKinds, -1),
        changed_(graph_.ops().size(), 0) {
    FindGroups();
  }

  // What changes affect at once is tried again first, then all that was tried before the last one.
  WalkPoint Run() && {
    while (true) {
      bool has_tried = false;
      for (Change kind : kChanges) {
        if (!TryAll(kind, /*near=*/true, has_tried)) return std::move(at_);
      }
      for (Change kind : kChanges) {
        if (!has_tried && !TryAll(kind, /*near=*/false, has_tried)) return std::move(at_);
      }
      if (!has_tried) return std::move(at_);
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

  // Indexed by place in graph.anchors().
  static std::vector<int32_t> ClassesOf(const Graph& graph, Grouping grouping) {
    if (grouping == Grouping::kOfShapes) return ShapeClasses(graph);
    if (grouping == Grouping::kOfLike) return LikeClasses(graph);
    std::vector<int32_t> classes(graph.anchors().size());
    std::iota(classes.begin(), classes.end(), 0);
    return classes;
  }

  // Indexed by OpId: the class, where the operator may be decided; otherwise -1.
  static std::vector<int32_t> FreeClasses(const SearchSpace& space, Grouping grouping) {
    const Graph& graph = space.graph();
    const std::vector<int32_t> classes = ClassesOf(graph, grouping);
    std::vector<int32_t> all(graph.ops().size(), -1), free(graph.ops().size(), -1);
    for (size_t a = 0; a < classes.size(); ++a) all[graph.anchors()[a].index()] = classes[a];
    for (OpId op : space.operators()) free[op.index()] = all[op.index()];
    return free;
  }

  void FindGroups() {
    groups_.assign(graph_.ops().size(), {});
    absl::flat_hash_map<int32_t, std::vector<OpId>> firsts;  // of the groups of each class
    const auto& configs = at_.strategy.configs;
    for (OpId op : space_.operators()) {
      std::vector<OpId>& of_class = firsts[class_of_[op.index()]];
      const auto first = std::find_if(of_class.begin(), of_class.end(), [&](OpId other) {
        return configs[other.index()] == configs[op.index()];
      });
      const OpId at = first == of_class.end() ? op : *first;
      if (at == op) of_class.push_back(op);
      groups_[at.index()].push_back(op);
    }
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

  // These return false where the search stopped or the budget is spent.
  bool TryAll(Change kind, bool near, bool& has_tried) {
    for (OpId op : space_.operators()) {
      const std::vector<OpId> group = groups_[op.index()];
      if (group.empty()) continue;
      int64_t& tried = tried_[op.index() * kKinds + static_cast<size_t>(kind)];
      if (tried >= (near ? LastChangeNear(group) : changes_)) continue;
      tried = changes_;
      has_tried = true;
      if (!TryGroup(kind, group)) return false;
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
        break;
    }
    std::vector<Copy> chains;
    for (OpId op : group) {
      for (OpId behind : ChainBehind(graph_, op)) {
        if (class_of_[behind.index()] >= 0) chains.push_back({op, behind});
      }
    }
    return chains.empty() || Split(group, ShiftedSplits(space_, at_.strategy, group[0]), chains);
  }

  // An operator whose result is split and placed as that of another one.
  struct Copy {
    OpId from, to;
  };

  // The best of these configurations for the group, where they fit.
  bool Split(const std::vector<OpId>& group, const std::vector<ParallelConfig>& configs,
             const std::vector<Copy>& chains) {
    std::vector<OpId> changed = group;
    for (const Copy& copy : chains) changed.push_back(copy.to);
    return Try(changed, configs.size(), [&](size_t k, Strategy& proposal) {
      for (OpId op : group) {
        if (space_.Fits(op, configs[k])) Decide(graph_, proposal, OperatorDecision{op, configs[k]});
      }
      for (const auto& [from, to] : chains) {
        auto config = WithSameResultSplit(space_, from, proposal.configs[from.index()], to);
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

  // Goes to the best of so many changes of these operators, if one is an improvement.
  bool Try(const std::vector<OpId>& changed, size_t count,
           absl::FunctionRef<void(size_t, Strategy&)> change) {
    if (state_.evaluations() >= end_) return false;
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
      FindGroups();
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
  const std::vector<int32_t> class_of_;   // indexed by OpId
  const std::vector<int32_t> weight_of_;  // indexed by TensorId
  // Indexed by OpId: the operators of its class that have its configuration, where it is the first of
  // them; otherwise none.
  std::vector<std::vector<OpId>> groups_;
  int64_t changes_ = 0;  // that improved
  // Those when a kind of change was last tried on the group that an operator is the first of; -1:
  // never. Indexed by operator and kind.
  std::vector<int64_t> tried_;
  std::vector<int64_t> changed_;  // indexed by OpId: the last of them that changed it; 0: none
};

}  // namespace

WalkPoint ImproveGroups(const SearchProblem& problem, SearchState& state, WalkPoint from,
                        Grouping grouping, int64_t budget) {
  if (from.excess_memory > 0) return from;
  return GroupImprover(problem, state, std::move(from), grouping, budget).Run();
}

}  // namespace partita
