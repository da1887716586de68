// Branch and bound (Land and Doig, Econometrica 1960): depth first over the subjects in the order
// of PartialBound, of each subject first the candidates with the least bounds; of candidates for a
// weight that are equal where its readers are decided, one.
#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "graph/parallel/weight_layouts.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"
#include "planner/bound/partial_bound.h"
#include "planner/search/search_state.h"
#include "planner/space/distinct_placements.h"

namespace partita {
namespace {

// Combinations, for each candidate, from which on the best start is improved first.
constexpr double kWorthImproving = 100;

class BranchAndBound {
 public:
  // All that is passed outlives this. `candidates`: by subject of the problem's space.
  BranchAndBound(const SearchProblem& problem, const std::vector<std::vector<Decision>>& candidates,
                 SearchState& state)
      : candidates_(candidates),
        state_(state),
        are_bounded_(problem.bucket_bytes == Bytes(0)),
        strategy_(problem.starts[0].strategy),
        bound_(problem.evaluator, strategy_, candidates, [&state] { return state.IsStopped(); }),
        order_(bound_.OrderOfSubjects()),
        chosen_(candidates.size(), -1),
        deciding_(DecidingSubjects(state.graph(), candidates)),
        bounds_left_(kBoundsForEvaluation *
                     std::clamp<int64_t>(state.left(), 1, int64_t{1} << 50)) {}

  // False where the search ended before all was tried or excluded.
  bool Run() { return Walk(0); }

 private:
  // A candidate, and the least time of what has it.
  using Branch = std::pair<int64_t, size_t>;

  // With all but the subjects from the `depth`-th of the order on decided.
  bool Walk(size_t depth) {
    if (depth == order_.size()) {
      const Evaluation evaluation = state_.Try(strategy_, "exhaustive", state_.to_beat());
      return evaluation.verdict != Evaluation::Verdict::kInterrupted;
    }
    const size_t subject = order_[depth];
    std::vector<Branch> branches;
    if (!FindBranches(subject, branches)) return false;
    for (const auto& [bound, candidate] : branches) {
      if (!MayBeFaster(bound)) break;
      if (state_.Done()) return false;
      bound_.Decide(subject, candidate);
      Decide(state_.graph(), strategy_, candidates_[subject][candidate]);
      chosen_[subject] = static_cast<int32_t>(candidate);
      const bool goes_on = Walk(depth + 1);
      bound_.Undecide(subject);
      if (!goes_on) return false;
    }
    return true;
  }

  // Those that may be faster than the best, the least bound first. False where the search ended.
  bool FindBranches(size_t subject, std::vector<Branch>& branches) {
    for (size_t c : DistinctCandidates(subject)) {
      if (--bounds_left_ < 0 || (state_.IsStopped() && state_.Done())) return false;
      bound_.Decide(subject, c);
      const int64_t bound = bound_.Bound(state_.to_beat().value());
      bound_.Undecide(subject);
      if (MayBeFaster(bound)) branches.emplace_back(bound, c);
    }
    std::sort(branches.begin(), branches.end());
    return true;
  }

  // By subject: those whose decisions decide where a weight lies by default; of operators none.
  static std::vector<std::vector<size_t>> DecidingSubjects(
      const Graph& graph, const std::vector<std::vector<Decision>>& candidates) {
    absl::flat_hash_map<OpId, size_t> subject_of;  // by anchor
    for (size_t s = 0; s < candidates.size(); ++s) {
      const auto* of_operator = std::get_if<OperatorDecision>(&candidates[s][0]);
      if (of_operator != nullptr) subject_of[of_operator->op] = s;
    }
    std::vector<std::vector<size_t>> deciding(candidates.size());
    for (size_t s = 0; s < candidates.size(); ++s) {
      const auto* of_weight = std::get_if<WeightDecision>(&candidates[s][0]);
      if (of_weight == nullptr) continue;
      for (OpId op : DecidingOperators(graph, static_cast<size_t>(of_weight->weight))) {
        const auto it = subject_of.find(graph.op(op).anchor);
        if (it != subject_of.end()) deciding[s].push_back(it->second);
      }
    }
    return deciding;
  }

  // Valid until the next call. Precondition: of weights, what decides where they lie is decided.
  const std::vector<size_t>& DistinctCandidates(size_t subject) {
    if (distinct_.size() > kMostDistinct) distinct_.clear();
    std::vector<int32_t> key = {static_cast<int32_t>(subject)};
    for (size_t other : deciding_[subject]) key.push_back(chosen_[other]);
    const auto [it, is_new] = distinct_.try_emplace(std::move(key));
    if (!is_new) return it->second;
    const std::vector<Decision>& all = candidates_[subject];
    if (const auto* of_weight = std::get_if<WeightDecision>(&all[0])) {
      it->second = DistinctPlacements(state_.graph(), strategy_,
                                      static_cast<size_t>(of_weight->weight), all);
    } else {
      it->second.resize(all.size());
      std::iota(it->second.begin(), it->second.end(), size_t{0});
    }
    return it->second;
  }

  // Buckets save what bounds count.
  bool MayBeFaster(int64_t bound) const {
    return !are_bounded_ || !state_.has_best() || Nanos(bound) < state_.best_time();
  }

  // Lists of candidates that are kept, some hundred bytes each.
  static constexpr size_t kMostDistinct = 200'000;
  // Partial assignments that are bounded for each evaluation of the budget.
  static constexpr int64_t kBoundsForEvaluation = 64;

  const std::vector<std::vector<Decision>>& candidates_;
  SearchState& state_;
  const bool are_bounded_;
  Strategy strategy_;
  PartialBound bound_;
  const std::vector<size_t> order_;
  std::vector<int32_t> chosen_;                      // by subject: of those decided
  const std::vector<std::vector<size_t>> deciding_;  // by subject
  // By subject and what was chosen for those that decide it.
  absl::flat_hash_map<std::vector<int32_t>, std::vector<size_t>> distinct_;
  int64_t bounds_left_;
};

}  // namespace

bool WalkAll(const SearchProblem& problem, SearchState& state) {
  std::vector<std::vector<Decision>> candidates;
  for (DecisionSubject subject : problem.space.subjects()) {
    candidates.push_back(problem.space.Candidates(subject, [&state] { return state.Done(); }));
    if (state.Done()) return false;
  }
  return BranchAndBound(problem, candidates, state).Run();
}

absl::StatusOr<SearchResult> SearchExhaustive(const SearchProblem& given,
                                              const SearchOptions& options) {
  SearchProblem problem = given;
  problem.bucket_bytes = Bytes(0);
  int64_t candidates = 0;
  double combinations = 1;
  for (DecisionSubject subject : problem.space.subjects()) {
    const int64_t count = problem.space.CountCandidates(subject, options.evaluations);
    candidates += count;
    combinations *= static_cast<double>(count);
    // With many devices even counting the candidates takes long.
    if (candidates > options.evaluations) break;
  }
  if (candidates > options.evaluations) {
    return UsageError(absl::StrCat("an exhaustive search has at least ", candidates,
                                   " decisions to combine; allowed are ", options.evaluations,
                                   " evaluations. Raise --evaluations, or use --search auto"));
  }
  SearchState state(problem, options);
  RETURN_IF_ERROR(state.TryStarts());
  // The shorter the best is, the more is excluded.
  if (kWorthImproving * static_cast<double>(candidates) < combinations) {
    ImproveLocally(problem, state);
  }
  const bool walked_all = !state.Done() && WalkAll(problem, state);
  absl::StatusOr<SearchResult> result = state.Finish();
  if (result.ok()) result->walked_all = walked_all;
  return result;
}

absl::StatusOr<SearchResult> SearchStarts(const SearchProblem& problem,
                                          const SearchOptions& options) {
  SearchState state(problem, options);
  RETURN_IF_ERROR(state.TryStarts());
  return state.Finish();
}

namespace {

// Every candidate of a subject in place of the best strategy's. False where the search stopped.
bool TryInBest(std::span<const Decision> candidates, SearchState& state) {
  const Strategy base = state.best();
  std::vector<Decision> others;
  for (const Decision& decision : candidates) {
    if (Changes(base, decision)) others.push_back(decision);
  }
  return state.TryInPlaceOfBest(others.size(), [&](size_t k) {
    Strategy proposal = base;
    Decide(state.graph(), proposal, others[k]);
    return proposal;
  });
}

}  // namespace

void ImproveLocally(const SearchProblem& problem, SearchState& state) {
  bool improved = state.has_best();
  while (improved) {
    improved = false;
    for (DecisionSubject subject : problem.space.subjects()) {
      const auto candidates = problem.space.Candidates(subject, [&] { return state.Done(); });
      if (state.Done()) return;  // they may not be all
      const Nanos before = state.best_time();
      if (!TryInBest(candidates, state)) return;
      if (state.best_time() == before) continue;
      improved = true;
      state.CountAccepted(0, state.origin(), "greedy", state.best_time());
    }
    if (!improved) state.SetLocallyOptimal();
  }
}

absl::StatusOr<SearchResult> SearchGreedy(const SearchProblem& problem,
                                          const SearchOptions& options) {
  SearchState state(problem, options);
  RETURN_IF_ERROR(state.TryStarts());
  ImproveLocally(problem, state);
  return state.Finish();
}

}  // namespace partita
