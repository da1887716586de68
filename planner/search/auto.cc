// Several searches in turn. The starts, and the best that dynamic programming makes of them; then,
// where the budget does for every combination, all of them; annealing from the best of all, and
// where the budget does for it, single decisions until none improves the best. Ends early where the
// best takes no more than the lower bound.
#include <algorithm>
#include <optional>
#include <utility>

#include "graph/support/status_macros.h"
#include "planner/search/annealing.h"
#include "planner/search/dynamic_programming.h"

namespace partita {
namespace {

// The candidates of all subjects: their sum, and the number of their combinations; both above what
// is left of the budget where the sum is.
struct CandidateCount {
  double sum = 0;
  double combinations = 1;
};

CandidateCount CountCandidates(const SearchSpace& space, SearchState& state) {
  const int64_t most = state.left();
  const auto ends = [&state] { return state.Done(); };
  CandidateCount count;
  for (DecisionSubject subject : space.subjects()) {
    const auto candidates = static_cast<double>(space.CountCandidates(subject, most, ends));
    count.sum += candidates;
    count.combinations = std::min(count.combinations * candidates, 1e18);
    if (count.sum > static_cast<double>(most) || state.Done()) return {1e18, 1e18};
  }
  return count;
}

void AddDynamicProgramming(const SearchProblem& problem, SearchState& state,
                           std::vector<WalkPoint>& points) {
  if (points.empty() || state.Done()) return;
  const Strategy base = points[0].strategy;
  // Only the best: they are much alike, and walks are to begin in different places.
  std::optional<WalkPoint> best;
  const auto stop = [&state] { return state.IsStopped(); };
  for (NamedStrategy& start : DynamicProgrammingStarts(problem, base, stop, state.threads())) {
    if (state.Done()) break;
    const Evaluation evaluation = state.Try(start.strategy, start.name);
    if (evaluation.verdict == Evaluation::Verdict::kInterrupted) break;
    if (evaluation.verdict == Evaluation::Verdict::kInvalid) continue;
    WalkPoint point = PointOf(start.name, std::move(start.strategy), evaluation, problem.evaluator);
    if (!best.has_value() || point < *best) best = std::move(point);
  }
  if (best.has_value()) points.push_back(*std::move(best));
  std::stable_sort(points.begin(), points.end());
}

}  // namespace

absl::StatusOr<SearchResult> SearchAuto(const SearchProblem& problem,
                                        const SearchOptions& options) {
  SearchState state(problem, options);
  ASSIGN_OR_RETURN(std::vector<WalkPoint> points, EvaluateStarts(problem, options, state));
  if (state.Done()) return state.Finish();
  AddDynamicProgramming(problem, state, points);
  const CandidateCount count = CountCandidates(problem.space, state);
  const bool walked_all =
      count.combinations <= static_cast<double>(state.left()) && WalkAll(problem, state);
  // Two rounds of single decisions: what improves, and that nothing does.
  const auto kept = static_cast<int64_t>(2 * count.sum);
  const bool ends_locally = 3 * count.sum <= static_cast<double>(state.left());
  Anneal(problem, options, state, points, state.left() - (ends_locally ? kept : 0));
  if (ends_locally) ImproveLocally(problem, state);
  absl::StatusOr<SearchResult> result = state.Finish();
  if (result.ok()) result->walked_all = walked_all;
  return result;
}

}  // namespace partita
