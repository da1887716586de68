#include "planner/search/dynamic_programming.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "graph/support/status_macros.h"
#include "planner/search/additive_program.h"
#include "planner/search/search_state.h"

namespace partita {
std::vector<NamedStrategy> DynamicProgrammingStarts(const SearchProblem& problem,
                                                    const Strategy& base,
                                                    const std::function<bool()>& stop,
                                                    WorkerThreads& threads) {
  if (problem.space.operators().empty()) return {};
  AdditiveProgram program(problem, base, stop, threads);
  if (!program.FindCosts()) return {};
  std::vector<NamedStrategy> found;
  for (double share : kCommunicationShares) {
    for (bool together : {true, false}) {
      const std::optional<Choices> least = program.LeastChoices(share, together);
      if (!least.has_value()) return {};
      Strategy strategy = program.StrategyOf(least->candidate, together);
      const auto is_same = [&](const NamedStrategy& other) { return other.strategy == strategy; };
      if (std::any_of(found.begin(), found.end(), is_same)) continue;
      found.push_back({"dynamic_programming", std::move(strategy)});
    }
  }
  return found;
}

absl::StatusOr<SearchResult> SearchDynamicProgramming(const SearchProblem& problem,
                                                      const SearchOptions& options) {
  SearchState state(problem, options);
  RETURN_IF_ERROR(state.TryStarts());
  if (state.Done()) return state.Finish();
  const Strategy base = state.has_best() ? state.best() : problem.starts[0].strategy;
  const auto stop = [&state] { return state.IsStopped(); };
  for (const NamedStrategy& found :
       DynamicProgrammingStarts(problem, base, stop, state.threads())) {
    if (state.Done()) break;
    state.Try(found.strategy, found.name);
  }
  return state.Finish();
}

}  // namespace partita
