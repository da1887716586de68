// Markov chain Monte Carlo over strategies (FlexFlow, MLSys 2019, section 6): p(S) ~ exp(-beta *
// cost(S)). A proposal is one of the search space's moves (planner/space/moves.h); it is accepted
// if its cost is at most the current cost - ln(u) / beta, u uniform. Costs are relative to the best
// start, so beta has no unit. The threshold is drawn before the evaluation, which may stop as soon
// as it is passed. Starts take turns, the cheapest first, each with a third of what is left of the
// budget; a chain ends when its share is used or the best has not improved for half of it. What is
// left in the end goes to chains from the best.
#include <utility>

#include "graph/support/status_macros.h"
#include "planner/search/walk.h"

namespace partita {
namespace {

// `unit`: the time that costs are relative to.
void RunChain(const SearchOptions& options, SearchState& state, Walk walk, int64_t budget,
              Nanos unit) {
  int64_t since_best = 0;
  for (int64_t step = 0; step < budget && since_best < (budget + 1) / 2; ++step) {
    if (state.Done()) return;
    const Walk::Outcome outcome = walk.Step(walk.DrawLimit(options.beta, unit));
    if (outcome.ended) return;
    since_best = outcome.improved ? 0 : since_best + 1;
  }
}

}  // namespace

absl::StatusOr<SearchResult> SearchMcmc(const SearchProblem& problem,
                                        const SearchOptions& options) {
  SearchState state(problem, options);
  ASSIGN_OR_RETURN(const std::vector<WalkPoint> starts,
                   EvaluateStarts(problem, options, state, {.most = kMostOfWalks}));
  if (problem.space.subjects().empty()) return state.Finish();
  const Nanos unit = starts.empty() ? Nanos(1) : starts[0].time;
  int number = 0;
  const auto run = [&](const WalkPoint& start, int64_t budget) {
    RunChain(options, state, Walk(problem, options, state, number++, start), budget, unit);
  };
  for (const WalkPoint& start : starts) run(start, (state.left() + 2) / 3);
  for (int64_t before = -1; !starts.empty() && !state.Done() && state.evaluations() != before;) {
    before = state.evaluations();
    run(state.has_best() ? WalkPoint{state.origin(), state.best(), state.best_time()} : starts[0],
        state.left());
  }
  return state.Finish();
}

}  // namespace partita
