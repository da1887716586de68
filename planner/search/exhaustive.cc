#include "absl/strings/str_cat.h"
#include "planner/search/search_state.h"

namespace partita {
namespace {

void WalkCombinations(const SearchProblem& problem, const std::vector<OpId>& free, size_t k,
                      Strategy& strategy, SearchState& state) {
  if (state.Done()) return;
  if (k == free.size()) {
    const Nanos enough =
        state.has_best() ? state.best_time() : Nanos(std::numeric_limits<int64_t>::max());
    state.Try(strategy, "exhaustive", enough);
    return;
  }
  for (const ParallelConfig& config : problem.space.Candidates(free[k])) {
    strategy.configs[free[k].index()] = config;
    WalkCombinations(problem, free, k + 1, strategy, state);
  }
}

}  // namespace

absl::StatusOr<SearchResult> SearchExhaustive(const SearchProblem& problem,
                                              const SearchOptions& options) {
  const std::vector<OpId> free = FreeOperators(problem);
  double combinations = 1;
  for (OpId op : free) combinations *= static_cast<double>(problem.space.Candidates(op).size());
  if (combinations > static_cast<double>(options.evaluations)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "an exhaustive search has ", combinations, " strategies to try; allowed are ",
        options.evaluations, " evaluations. Raise --evaluations, or use --search mcmc"));
  }
  if (problem.starts.empty()) return absl::InvalidArgumentError("a search needs a start");
  SearchState state(problem, options);
  Strategy strategy = problem.starts[0].strategy;
  WalkCombinations(problem, free, 0, strategy, state);
  return state.Finish();
}

absl::StatusOr<SearchResult> SearchStarts(const SearchProblem& problem,
                                          const SearchOptions& options) {
  SearchState state(problem, options);
  for (const NamedStrategy& start : problem.starts) state.Try(start.strategy, start.name);
  return state.Finish();
}

absl::StatusOr<SearchResult> SearchGreedy(const SearchProblem& problem,
                                          const SearchOptions& options) {
  SearchState state(problem, options);
  for (const NamedStrategy& start : problem.starts) state.Try(start.strategy, start.name);
  bool improved = state.has_best();
  while (improved && !state.Done()) {
    improved = false;
    for (OpId op : FreeOperators(problem)) {
      for (const ParallelConfig& config : problem.space.Candidates(op)) {
        if (state.Done()) return state.Finish();
        Strategy proposal = state.best();
        if (proposal.configs[op.index()] == config) continue;
        proposal.configs[op.index()] = config;
        const Nanos before = state.best_time();
        state.Try(proposal, "greedy", before);
        if (state.best_time() < before) {
          improved = true;
          state.CountAccepted(0, "greedy", state.best_time());
        }
      }
    }
  }
  return state.Finish();
}

}  // namespace partita
