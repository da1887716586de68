// The additive model as an integer program. For each share of communication the cheapest choices
// that the solver met are simulated.
#include <functional>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"
#include "planner/search/additive_program.h"
#include "planner/search/integer_program.h"
#include "planner/search/search_state.h"

namespace partita {
namespace {

// Variables up to which each operator chooses by itself.
constexpr int64_t kMostVariables = 100'000;

// Whether the search goes on.
bool TryChoices(const AdditiveProgram& program, std::span<const Choices> found, bool together,
                SearchState& state) {
  for (const Choices& choices : found) {
    if (state.Done()) return false;
    state.Try(program.StrategyOf(choices.candidate, together), "ilp");
  }
  return !state.Done();
}

}  // namespace

absl::StatusOr<SearchResult> SearchIlp(const SearchProblem& problem, const SearchOptions& options) {
  if (IntegerProgramLacks() != nullptr) {
    return DeclinedError(absl::StrCat(
        "this program was built without an integer programming solver: install ",
        IntegerProgramLacks(), " and build it again, or use --search dynamic_programming"));
  }
  SearchState state(problem, options);
  RETURN_IF_ERROR(state.TryStarts());
  if (state.Done() || problem.space.operators().empty()) return state.Finish();
  const Strategy base = state.has_best() ? state.best() : problem.starts[0].strategy;
  const std::function<bool()> stop = [&state] { return state.IsStopped(); };
  AdditiveProgram program(problem, base, stop, state.threads());
  if (!program.FindCosts() || !program.PriceWhole()) {
    state.Done();
    return state.Finish();
  }
  for (double share : kCommunicationShares) {
    ChoiceProblem choices = program.ChoicesAt(share, false);
    const bool together = IntegerProgramSize(choices) > kMostVariables;
    if (together) choices = program.ChoicesAt(share, true);
    const std::vector<ChoiceLimit> limits = program.LimitsOf(together);
    const std::vector<Choices> found = IntegerProgramChoices(choices, limits, {.stop = stop});
    if (!TryChoices(program, found, together, state)) break;
  }
  return state.Finish();
}

}  // namespace partita
