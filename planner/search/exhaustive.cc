#include <limits>

#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"
#include "graph/support/usage_error.h"
#include "planner/search/search_state.h"

namespace partita {
namespace {

struct FreeOperator {
  OpId op;
  std::vector<ParallelConfig> candidates;
};

void WalkCombinations(const std::vector<FreeOperator>& free, size_t k, Strategy& strategy,
                      SearchState& state) {
  if (state.Done()) return;
  if (k == free.size()) {
    const Nanos cutoff =
        state.has_best() ? state.best_time() : Nanos(std::numeric_limits<int64_t>::max());
    state.Try(strategy, "exhaustive", cutoff);
    return;
  }
  for (const ParallelConfig& config : free[k].candidates) {
    strategy.configs[free[k].op.index()] = config;
    WalkCombinations(free, k + 1, strategy, state);
  }
}

}  // namespace

absl::StatusOr<SearchResult> SearchExhaustive(const SearchProblem& problem,
                                              const SearchOptions& options) {
  std::vector<FreeOperator> free;
  double combinations = 1;
  for (OpId op : FreeOperators(problem)) {
    free.push_back({op, problem.space.Candidates(op)});
    combinations *= static_cast<double>(free.back().candidates.size());
    // With many devices even listing the candidates takes long.
    if (combinations > static_cast<double>(options.evaluations)) break;
  }
  if (combinations + static_cast<double>(problem.starts.size()) >
      static_cast<double>(options.evaluations)) {
    return UsageError(absl::StrCat("an exhaustive search has at least ", combinations,
                                   " strategies to try; allowed are ", options.evaluations,
                                   " evaluations. Raise --evaluations, or use --search mcmc"));
  }
  SearchState state(problem, options);
  RETURN_IF_ERROR(state.TryStarts());
  Strategy strategy = problem.starts[0].strategy;
  WalkCombinations(free, 0, strategy, state);
  return state.Finish();
}

absl::StatusOr<SearchResult> SearchStarts(const SearchProblem& problem,
                                          const SearchOptions& options) {
  SearchState state(problem, options);
  RETURN_IF_ERROR(state.TryStarts());
  return state.Finish();
}

absl::StatusOr<SearchResult> SearchGreedy(const SearchProblem& problem,
                                          const SearchOptions& options) {
  SearchState state(problem, options);
  RETURN_IF_ERROR(state.TryStarts());
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
        state.Try(proposal, state.origin(), before);
        if (state.best_time() < before) {
          improved = true;
          state.CountAccepted(0, state.origin(), state.best_time());
        }
      }
    }
  }
  return state.Finish();
}

}  // namespace partita
