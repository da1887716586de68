#include "planner/search/improve_stages.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/parallel/decision.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"
#include "planner/space/stage_moves.h"

namespace partita {
namespace {

// Pieces of equal numbers of operators, between which a stage may be cut.
constexpr size_t kPieces = 8;
// Parts of the shorter of two stages that go from one to the other.
constexpr size_t kShifts[] = {4, 16, 64};

// What takes at most so many times the best is near it.
constexpr double kNearBest = 1.05;
// What takes at most such a part of another's time is far faster.
constexpr double kFarFaster = 0.9;
// Part of what is left of the budget that goes to the stages of one point.
constexpr double kPartOfStages = 0.2;

using Decisions = std::vector<Decision>;

void AddCuts(const SearchSpace& space, const Strategy& strategy, const StrategyStage& stage,
             std::vector<Decisions>& changes) {
  const size_t operators = stage.end - stage.begin;
  size_t last = stage.begin;
  for (size_t piece = 1; piece < kPieces; ++piece) {
    const size_t cut = stage.begin + operators * piece / kPieces;
    if (cut == std::exchange(last, cut)) continue;
    changes.push_back(SplitStageAt(space, strategy, stage, cut));
  }
}

void AddShifts(const SearchSpace& space, const Strategy& strategy,
               std::span<const StrategyStage, 2> stages, std::vector<Decisions>& changes) {
  const size_t end = stages[0].end;
  const size_t shorter = std::min(end - stages[0].begin, stages[1].end - end);
  size_t last = 0;
  for (size_t part : kShifts) {
    const size_t shift = std::max<size_t>(1, shorter / part);
    if (shift >= shorter || shift == std::exchange(last, shift)) continue;
    for (size_t cut : {end - shift, end + shift}) {
      changes.push_back(ShiftStages(space, strategy, stages, cut));
    }
  }
}

std::vector<Decisions> ChangesOf(const SearchSpace& space, const Strategy& strategy) {
  const std::vector<StrategyStage> stages = StagesOf(space, strategy);
  std::vector<Decisions> changes;
  for (size_t s = 0; s < stages.size(); ++s) {
    AddCuts(space, strategy, stages[s], changes);
    if (s + 1 == stages.size()) break;
    AddShifts(space, strategy, std::span(stages).subspan(s).first<2>(), changes);
  }
  std::erase_if(changes, [](const Decisions& change) { return change.empty(); });
  return changes;
}

}  // namespace

WalkPoint ImproveStages(const SearchProblem& problem, SearchState& state, WalkPoint from,
                        int64_t budget) {
  const int64_t end = state.evaluations() + budget;
  while (state.evaluations() < end) {
    std::vector<Decisions> changes = ChangesOf(problem.space, from.strategy);
    const auto left = static_cast<size_t>(end - state.evaluations());
    if (changes.size() > left) changes.resize(left);
    const auto make = [&](size_t k) {
      Strategy changed = from.strategy;
      Decide(problem.space.graph(), changed, changes[k]);
      return changed;
    };
    Fastest fastest = FastestOf(changes.size(), make, from, problem, state);
    if (!fastest.goes_on || !fastest.point.has_value()) break;
    from = *std::move(fastest.point);
    state.CountAccepted(0, from.name, "stages", from.time);
  }
  return from;
}

void AddStages(const SearchProblem& problem, SearchState& state, Nanos known,
               std::vector<WalkPoint>& points) {
  std::vector<WalkPoint> from;
  const Graph& graph = state.graph();
  for (const WalkPoint& point : points) {
    const bool is_wide = DevicesOf(graph, point.strategy) == problem.space.devices();
    if (point.excess_memory > 0 || point.time >= known) continue;
    if (!from.empty() && point.time > TimesOf(from[0].time, kNearBest)) break;
    if (from.empty() || is_wide) from.push_back(point);
    if (is_wide) break;
  }
  for (WalkPoint& point : from) {
    if (state.Done()) break;
    const auto budget = static_cast<int64_t>(kPartOfStages * static_cast<double>(state.left()));
    const Nanos before = point.time;
    WalkPoint improved = ImproveStages(problem, state, std::move(point), budget);
    if (improved.time < before) points.push_back(std::move(improved));
  }
  std::stable_sort(points.begin(), points.end());
}

absl::StatusOr<SearchResult> SearchStages(const SearchProblem& problem,
                                          const SearchOptions& options) {
  SearchState state(problem, options);
  const StartRules rules{.most = kMostOfGatheredWalks, .has_random = false};
  ASSIGN_OR_RETURN(std::vector<WalkPoint> points, EvaluateStarts(problem, options, state, rules));
  if (!state.has_best()) return state.Finish();
  const Nanos of_starts = state.best_time();
  AddStages(problem, state, kNoCutoff, points);
  if (state.best_time() <= TimesOf(of_starts, kFarFaster)) return state.Finish();
  return DeclinedError(absl::StrCat("stages take ", state.best_time().value(),
                                    " ns, the best start ", of_starts.value(),
                                    ": not worth searching from"));
}

}  // namespace partita
