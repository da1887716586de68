#include "planner/search/improve_groups.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "graph/parallel/decision.h"
#include "graph/support/status_macros.h"
#include "planner/search/group_changes.h"

namespace partita {
namespace {

// A group for which the step waits this part of its time, or less, comes after all others, and from
// trades on, but for changes with readers, after those of all groupings; for kinds that there are many
// changes of it is a larger part.
// Weights for which it waits so little come with what costs most: of 27 layouts that gained in searches
// one was of such weights, by 0.01 %, and of 670 that did not half were.
constexpr int64_t kLittle = 256, kLittleOfWeights = 512, kLittleForMany = 48;
int64_t LittleFor(Change kind) {
  if (kind == Change::kWeights) return kLittleOfWeights;
  return HasMany(kind) ? kLittleForMany : kLittle;
}

// How long a step waits for operators and weights; all 0 where that is not known.
struct Waits {
  std::vector<Nanos> of_operators;  // indexed by OpId of anchors
  std::vector<Nanos> of_weights;    // indexed by TensorId
};

// A part of a search ends where so many evaluations have not gained one in kLittleGain.
constexpr int64_t kPatience = 100;
constexpr int64_t kLittleGain = 500;

// Proposals that are evaluated ahead, for each thread.
constexpr int64_t kTrialsOfThread = 8;

}  // namespace

// Tries one kind of change after the other on all groups of a strategy.
class GroupImprover {
 public:
  // All that is passed outlives this.
  GroupImprover(const SearchProblem& problem, SearchState& state, const OperatorGroups& groups,
                GroupChanges& changes, WalkPoint from)
      : problem_(problem),
        graph_(problem.space.graph()),
        state_(state),
        at_(std::move(from)),
        groups_(groups),
        changes_of_(changes),
        tried_(graph_.ops().size() * std::size(kGroupings) * kKindsOfChange * changes_of_.levels(),
               -1),
        changed_(graph_.ops().size(), 0) {}

  const WalkPoint& point() const { return at_; }

  // Goes on for so many evaluations. Where a change improved the strategy, what it may have affected is
  // tried first, then all else.
  void Run(int64_t budget) {
    end_ = state_.evaluations() + budget;
    for (Pass pass; pass.level < changes_of_.levels();) {
      const int64_t changes = changes_;
      if (!TryAll(pass)) break;
      if (changes_ > changes) {
        pass = {};
      } else if (pass.near) {
        pass.near = false;
      } else {
        const size_t next = pass.level + 1;
        pass = {next, next + 1 < changes_of_.levels()};
      }
    }
  }

 private:
  // Attempts that are made one after another: changes of a level, of what the last changes may have
  // affected, or of all. What costs most is tried of all at once.
  struct Pass {
    size_t level = 0;
    bool near = true;
  };

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

  // For operators, those that follow them, and what these read and make; for weights, their updates and
  // what these read.
  Waits FindWaits() const {
    Waits waits{std::vector<Nanos>(graph_.ops().size()),
                std::vector<Nanos>(graph_.tensors().size())};
    const Evaluator& evaluator = problem_.evaluator;
    const auto times = evaluator.CriticalTimes(at_.strategy, problem_.bucket_bytes);
    if (!times.ok()) return waits;
    const auto time_of = [&](auto subject) {
      return (*times)[static_cast<size_t>(evaluator.distances().SubjectOf(subject))];
    };
    for (const Operator& op : graph_.ops()) {
      Nanos time = time_of(op.id);
      for (TensorId input : op.inputs) time += time_of(input);
      if (op.anchor == kNoOp) {
        waits.of_weights[op.anchor_weight.index()] += time;
        continue;
      }
      for (TensorId output : op.outputs) time += time_of(output);
      waits.of_operators[op.anchor.index()] += time;
    }
    return waits;
  }

  // How long the step waits for the weights that the operators read, each once.
  Nanos WaitForWeights(const std::vector<OpId>& group, const Waits& waits) const {
    std::vector<TensorId> inputs;
    for (OpId op : group) {
      const auto& own = graph_.op(op).inputs;
      inputs.insert(inputs.end(), own.begin(), own.end());
    }
    std::sort(inputs.begin(), inputs.end());
    inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
    Nanos time;
    for (TensorId input : inputs) time += waits.of_weights[input.index()];
    return time;
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
    const Waits waits = FindWaits();
    attempts_.clear();
    for (const OperatorGroup& group : groups_now_) {
      Nanos time;
      for (OpId op : group.ops) time += waits.of_operators[op.index()];
      const Nanos of_weights = WaitForWeights(group.ops, waits);
      for (size_t k = 0; k < kKindsOfChange; ++k) {
        const auto kind = static_cast<Change>(k);
        const Nanos of_kind = kind == Change::kWeights ? of_weights : time;
        attempts_.push_back({kind, &group, time, of_kind * LittleFor(kind) <= at_.time});
      }
    }
    std::stable_sort(
        attempts_.begin(), attempts_.end(), [this](const Attempt& a, const Attempt& b) {
          const auto order = [this](const Attempt& one) {
            const bool is_late =
                one.is_little && one.kind >= Change::kTraded && one.kind != Change::kReaders;
            return std::tuple(one.group->is_repeat, is_late, one.group->grouping, one.is_little,
                              changes_of_.PlaceOf(one.kind), Nanos(0) - one.critical);
          };
          return order(a) < order(b);
        });
  }

  // The changes there were when such an attempt was made last; -1: never.
  int64_t& TriedAt(const Attempt& attempt, size_t level) {
    const size_t group = attempt.group->ops[0].index() * std::size(kGroupings) +
                         static_cast<size_t>(attempt.group->grouping);
    const size_t kind = group * kKindsOfChange + static_cast<size_t>(attempt.kind);
    return tried_[kind * changes_of_.levels() + level];
  }

  // An attempt with its changes, of which one set is tried after another; and what these take, in the
  // order of all proposals, where that was found ahead.
  struct Prepared {
    const Attempt* attempt;
    std::vector<ChangeSet> sets;
    std::vector<Evaluation> ahead = {};

    size_t proposals() const {
      size_t count = 0;
      for (const ChangeSet& set : sets) count += set.proposals.size();
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
        int64_t& tried_at = TriedAt(*prepared.attempt, pass.level);
        const int64_t before = std::exchange(tried_at, changes_);
        if (!TryPrepared(prepared)) {
          tried_at = before;
          return false;
        }
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
      for (const ChangeSet& set : prepared.sets) {
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

  Strategy StrategyOf(const ChangeSet& set, size_t proposal) const {
    Strategy changed = at_.strategy;
    Decide(graph_, changed, set.proposals[proposal]);
    return changed;
  }

  bool TryPrepared(Prepared& prepared) {
    std::span<const Evaluation> ahead = prepared.ahead;
    for (size_t s = 0; s < prepared.sets.size(); ++s) {
      const ChangeSet& set = prepared.sets[s];
      const size_t count = set.proposals.size();
      const int64_t changes = changes_;
      const OpId first = set.ops[0];
      const ParallelConfig before = at_.strategy.configs[first.index()];
      if (!Try(set, ahead.empty() ? ahead : ahead.first(count))) return false;
      if (!ahead.empty()) ahead = ahead.subspan(count);
      if (changes_ == changes) continue;
      if (set.ops.size() == 1 && !TryAlong(first, before)) return false;
      if (s + 1 == prepared.sets.size()) continue;
      prepared.sets = ChangesOf(*prepared.attempt);
      ahead = {};
    }
    return true;
  }

  // Gives an operator's new configuration to those of equal shapes before and behind it that have the
  // one it had: to the next one, and as long as that improves the strategy to the next 1, 2, 4 and so on.
  bool TryAlong(OpId op, const ParallelConfig& before) {
    const ParallelConfig config = at_.strategy.configs[op.index()];
    if (config == before) return true;
    for (bool is_behind : {false, true}) {
      std::vector<OpId> row = groups_.RowFrom(op, is_behind, before, at_.strategy);
      std::erase_if(row, [&](OpId other) { return !problem_.space.Fits(other, config); });
      std::span<const OpId> left = row;
      for (size_t most = 1; !left.empty(); most = left.size()) {
        const int64_t changes = changes_;
        if (!Try(CopiesTo(left, most, config), {})) return false;
        if (changes_ == changes) break;
        const auto end = std::ranges::find_if(
            left, [&](OpId other) { return at_.strategy.configs[other.index()] != config; });
        left = left.subspan(static_cast<size_t>(end - left.begin()));
      }
    }
    return true;
  }

  // One configuration for the first 1, 2, 4 and so on of the operators, up to `most`.
  static ChangeSet CopiesTo(std::span<const OpId> ops, size_t most, const ParallelConfig& config) {
    ChangeSet set{{ops.begin(), ops.begin() + static_cast<std::ptrdiff_t>(most)}, {}};
    for (size_t count = 1;; count = std::min(most, 2 * count)) {
      auto& proposal = set.proposals.emplace_back();
      for (OpId op : ops.first(count)) proposal.emplace_back(OperatorDecision{op, config});
      if (count == most) return set;
    }
  }

  std::vector<ChangeSet> ChangesOf(const Attempt& attempt) {
    const bool is_late = attempt.kind == Change::kWeights && attempt.is_little;
    const size_t level_of_weights = is_late ? changes_of_.levels() - 1 : 0;
    if (attempt.kind == Change::kWeights && level_ != level_of_weights) return {};
    return changes_of_.Of(attempt.kind, level_, attempt.group->ops, at_.strategy, at_.time);
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
  // What was evaluated since the last improvement is not again: kinds of changes and groups overlap.
  bool Try(const ChangeSet& set, std::span<const Evaluation> ahead) {
    if (state_.evaluations() >= end_ || GainsLittle()) return false;
    const size_t evaluated = evaluated_.size();
    std::vector<size_t> fresh;
    std::vector<Evaluation> of_fresh;
    for (size_t k = 0; k < set.proposals.size(); ++k) {
      std::vector<Decision> net = NetOf(set.proposals[k], at_.strategy);
      if (IsKnown(evaluated_, net)) continue;
      evaluated_.push_back(std::move(net));
      fresh.push_back(k);
      if (!ahead.empty()) of_fresh.push_back(ahead[k]);
    }
    const auto make = [&](size_t k) { return StrategyOf(set, fresh[k]); };
    Fastest fastest = ahead.empty() ? FastestOf(fresh.size(), make, at_, problem_, state_)
                                    : FastestOfEvaluated(make, of_fresh, at_, problem_, state_);
    if (!fastest.goes_on) evaluated_.resize(evaluated);
    if (fastest.point.has_value()) {
      evaluated_ = {Back(set, at_.strategy, fastest.point->strategy)};
      ++changes_;
      MarkChanged(set.ops, at_.strategy, fastest.point->strategy);
      at_ = *std::move(fastest.point);
      state_.CountAccepted(0, at_.name, "group", at_.time);
    }
    return fastest.goes_on;
  }

  // Notes which of the operators have another configuration than before; all where weights changed.
  void MarkChanged(const std::vector<OpId>& ops, const Strategy& before, const Strategy& after) {
    const bool of_weights = before.configs == after.configs;
    for (OpId op : ops) {
      const size_t index = op.index();
      if (of_weights || before.configs[index] != after.configs[index]) changed_[index] = changes_;
    }
  }

  // The last decision on each subject, by subject, but for those that the strategy has.
  static std::vector<Decision> NetOf(const std::vector<Decision>& decisions,
                                     const Strategy& strategy) {
    std::vector<Decision> net(decisions.rbegin(), decisions.rend());
    std::stable_sort(net.begin(), net.end(), [](const Decision& a, const Decision& b) {
      return SubjectOf(a) < SubjectOf(b);
    });
    const auto is_same = [](const Decision& a, const Decision& b) {
      return SubjectOf(a) == SubjectOf(b);
    };
    net.erase(std::unique(net.begin(), net.end(), is_same), net.end());
    std::erase_if(net, [&](const Decision& one) { return !Changes(strategy, one); });
    return net;
  }

  // What leads back from one strategy to another, of which a change of the set made it.
  static std::vector<Decision> Back(const ChangeSet& set, const Strategy& before,
                                    const Strategy& after) {
    std::vector<Decision> decisions;
    for (const auto& proposal : set.proposals) {
      for (const Decision& one : proposal) decisions.push_back(DecisionIn(before, SubjectOf(one)));
    }
    return NetOf(decisions, after);
  }

  // A change of nothing counts as one that there is.
  static bool IsKnown(const std::vector<std::vector<Decision>>& evaluated,
                      const std::vector<Decision>& net) {
    return net.empty() || std::find(evaluated.begin(), evaluated.end(), net) != evaluated.end();
  }

  const SearchProblem& problem_;
  const Graph& graph_;
  SearchState& state_;
  WalkPoint at_;
  int64_t end_ = 0;  // evaluations of the search
  const OperatorGroups& groups_;
  GroupChanges& changes_of_;
  int64_t changes_ = 0;  // that improved
  // What those changed that were evaluated since the last of them.
  std::vector<std::vector<Decision>> evaluated_;
  // The evaluations at the last gain that counts, and the time then; -1: at the start.
  int64_t gained_at_ = -1;
  Nanos gained_time_;
  size_t level_ = 0;        // Pass::level of the pass at hand
  int64_t most_ahead_ = 0;  // proposals that are evaluated ahead, but for those of one attempt
  // Groups and attempts of the strategy after so many changes; -1: not found yet.
  int64_t attempts_at_ = -1;
  std::vector<OperatorGroup> groups_now_;
  std::vector<Attempt> attempts_;
  std::vector<int64_t> tried_;    // as TriedAt finds them
  std::vector<int64_t> changed_;  // indexed by OpId: the last of them that changed it; 0: none
};

GroupDescents::GroupDescents(const SearchProblem& problem, SearchState& state,
                             std::span<const Grouping> groupings)
    : problem_(problem), state_(state), groups_(problem.space, groupings) {}
GroupDescents::~GroupDescents() = default;

WalkPoint GroupDescents::Improve(WalkPoint from, int64_t budget) {
  if (from.excess_memory > 0) return from;
  auto descent = std::find_if(descents_.begin(), descents_.end(), [&](const auto& one) {
    return one->point().time == from.time && one->point().strategy == from.strategy;
  });
  if (descent == descents_.end()) {
    if (!changes_.has_value()) changes_.emplace(problem_, groups_, state_);
    descents_.push_back(
        std::make_unique<GroupImprover>(problem_, state_, groups_, *changes_, std::move(from)));
    descent = descents_.end() - 1;
  }
  (*descent)->Run(budget);
  return (*descent)->point();
}

absl::StatusOr<SearchResult> SearchGroups(const SearchProblem& problem,
                                          const SearchOptions& options) {
  SearchState state(problem, options);
  RETURN_IF_ERROR(state.TryStarts());
  if (state.has_best()) {
    GroupDescents descents(problem, state, kGroupings);
    descents.Improve({state.origin(), state.best(), state.best_time()}, state.left());
  }
  return state.Finish();
}

}  // namespace partita
