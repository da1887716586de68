#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"
#include "planner/search/search_state.h"

namespace partita {
namespace {

// False where the search stopped.
bool WalkCombinations(const std::vector<std::vector<Decision>>& candidates, size_t k,
                      Strategy& strategy, SearchState& state) {
  if (k == candidates.size()) {
    const Nanos cutoff = state.has_best() ? state.best_time() : kNoCutoff;
    return state.Try(strategy, "exhaustive", cutoff).verdict != Evaluation::Verdict::kInterrupted;
  }
  for (const Decision& decision : candidates[k]) {
    if (state.Done()) return false;
    Decide(state.graph(), strategy, decision);
    if (!WalkCombinations(candidates, k + 1, strategy, state)) return false;
  }
  return true;
}

}  // namespace

bool WalkAll(const SearchProblem& problem, SearchState& state) {
  std::vector<std::vector<Decision>> candidates;
  for (DecisionSubject subject : problem.space.subjects()) {
    candidates.push_back(problem.space.Candidates(subject));
  }
  Strategy strategy = problem.starts[0].strategy;
  return WalkCombinations(candidates, 0, strategy, state);
}

absl::StatusOr<SearchResult> SearchExhaustive(const SearchProblem& problem,
                                              const SearchOptions& options) {
  double combinations = 1;
  for (DecisionSubject subject : problem.space.subjects()) {
    combinations *=
        static_cast<double>(problem.space.CountCandidates(subject, options.evaluations));
    // With many devices even counting the candidates takes long.
    if (combinations > static_cast<double>(options.evaluations)) break;
  }
  if (combinations + static_cast<double>(problem.starts.size()) >
      static_cast<double>(options.evaluations)) {
    return UsageError(absl::StrCat("an exhaustive search has at least ", combinations,
                                   " strategies to try; allowed are ", options.evaluations,
                                   " evaluations. Raise --evaluations, or use --search auto"));
  }
  SearchState state(problem, options);
  RETURN_IF_ERROR(state.TryStarts());
  const bool walked_all = WalkAll(problem, state);
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
bool TryInBest(std::span<const Decision> candidates, DecisionSubject subject, SearchState& state) {
  const Strategy base = state.best();
  const std::string origin = state.origin();
  std::vector<Decision> others;
  for (const Decision& decision : candidates) {
    if (!(DecisionIn(base, subject) == decision)) others.push_back(decision);
  }
  for (size_t begin = 0; begin < others.size();) {
    if (state.Done()) return false;
    const size_t count = state.TrialsLeft(others.size() - begin);
    std::vector<Strategy> proposals(count, base);
    std::vector<Trial> trials;
    for (size_t k = 0; k < count; ++k) {
      Decide(state.graph(), proposals[k], others[begin + k]);
      trials.push_back({&proposals[k], &origin, state.best_time()});
    }
    for (const Evaluation& evaluation : state.TryAll(trials)) {
      if (evaluation.verdict == Evaluation::Verdict::kInterrupted) return false;
    }
    begin += count;
  }
  return true;
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
      if (!TryInBest(candidates, subject, state)) return;
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
