#include "planner/search/annealing.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "graph/support/status_macros.h"

namespace partita {
namespace {

constexpr size_t kWalks = 4;
// Where the best point is on some of the devices only, this walk begins there and stays on them.
constexpr size_t kNarrowWalk = 1;
// Temperatures at the beginning and at the end.
constexpr double kHot = 0.01, kCold = 0.0005;
// Turns, of all walks, after which those behind go on from the best: so many in a budget.
constexpr int64_t kGatherings = 12;
// Steps that a walk goes by itself before they are told, and the seconds that these take, at most.
constexpr int64_t kStretch = 32;
constexpr double kStretchSeconds = 0.5;
// How much longer than the best, in temperatures, is behind.
constexpr double kBehind = 3;

// The problem on the devices alone that the best point is on; nullopt where these are all.
std::optional<SearchProblem> NarrowProblem(const SearchProblem& problem, const WalkPoint& best) {
  const Graph& graph = problem.space.graph();
  const int devices = DevicesOf(graph, best.strategy);
  if (!problem.space.whole() || devices >= problem.space.devices()) return std::nullopt;
  SearchProblem narrow = problem;
  narrow.space = SearchSpace(graph, devices);
  return narrow;
}

void GatherWalks(const WalkPoint& best, double temperature, std::vector<Walk>& walks) {
  if (best.excess_memory > 0) return;
  const auto time = static_cast<double>(best.time.value());
  for (Walk& walk : walks) {
    const auto own = static_cast<double>(walk.at().time.value());
    if (walk.at().excess_memory == 0 && own <= time * (1 + kBehind * temperature)) continue;
    walk.GoTo(best);
  }
}

// Steps of the next stretch, after one of so many that took so long.
int64_t LengthOfStretch(int64_t steps, double seconds) {
  const double fit = kStretchSeconds / std::max(1e-9, seconds / static_cast<double>(steps));
  return std::clamp<int64_t>(static_cast<int64_t>(std::min<double>(fit, kStretch)), 1, kStretch);
}

// Makes so many steps of each walk by itself: strategies of one differ by little, those of two by much.
// Tells them in turns, and updates the best. `limit`: of a walk's k-th step. False where a walk has
// ended.
template <class Limit>
bool StepApart(std::span<Walk> walks, int64_t steps, const Limit& limit, SearchState& state,
               WalkPoint& best) {
  std::vector<std::vector<Walk::MadeStep>> made(walks.size());
  state.threads().ForEach(walks.size(), [&](size_t w) {
    for (int64_t k = 0; k < steps && !state.IsStopped(); ++k) {
      std::optional<Walk::MadeStep> step = walks[w].MakeStep(limit(walks[w], k));
      if (!step.has_value()) return;
      made[w].push_back(*std::move(step));
    }
  });
  bool goes_on = true;
  for (size_t k = 0; k < static_cast<size_t>(steps); ++k) {
    for (size_t w = 0; w < walks.size(); ++w) {
      goes_on &= k < made[w].size();
      if (k >= made[w].size()) continue;
      const Walk::MadeStep& step = made[w][k];
      walks[w].Tell(step);
      if (!step.strategy.has_value()) continue;
      WalkPoint kept{walks[w].at().name, *step.strategy, step.evaluation.time};
      if (kept < best) best = std::move(kept);
    }
  }
  for (const Walk& walk : walks) {
    if (walk.at() < best) best = walk.at();
  }
  return goes_on;
}

}  // namespace

void Anneal(const SearchProblem& problem, const SearchOptions& options, SearchState& state,
            const AnnealingRound& round) {
  const auto& [points, budget, number] = round;
  if (points.empty() || budget <= 0 || problem.space.subjects().empty()) return;
  const std::optional<SearchProblem> narrow = NarrowProblem(problem, points[0]);
  std::vector<Walk> walks;
  for (size_t w = 0; w < std::min<size_t>(kWalks, static_cast<size_t>(budget)); ++w) {
    const bool stays = w == kNarrowWalk && narrow.has_value();
    walks.emplace_back(stays ? *narrow : problem, options, state,
                       number * static_cast<int>(kWalks) + static_cast<int>(w),
                       points[stays ? 0 : w % points.size()]);
  }
  const Nanos unit = points[0].time;
  WalkPoint best = points[0];  // of these walks
  const int64_t gathering = std::max<int64_t>(1, budget / kGatherings);
  int64_t gathered = 0;
  const auto temperature_at = [&](int64_t step) {
    const double used = static_cast<double>(step) / static_cast<double>(budget);
    return kHot * std::pow(kCold / kHot, std::min(1.0, std::max(used, state.PartOfTime())));
  };
  int64_t stretch = 1;
  for (int64_t step = 0; step < budget && !state.Done();) {
    if (step - gathered >= gathering) {
      GatherWalks(best, temperature_at(step), walks);
      gathered = step;
    }
    const size_t moving =
        state.TrialsLeft(std::min(walks.size(), static_cast<size_t>(budget - step)));
    const auto each = static_cast<int64_t>(moving);
    const int64_t to_gathering = (gathered + gathering - step + each - 1) / each;
    const int64_t steps = std::clamp<int64_t>(
        std::min({to_gathering, (budget - step) / each, state.left() / each}), 1, stretch);
    const auto limit = [&](Walk& walk, int64_t k) {
      return walk.DrawLimit(1 / temperature_at(step + k * each), unit);
    };
    const double begin = state.Seconds();
    if (!StepApart(std::span(walks).first(moving), steps, limit, state, best)) return;
    step += steps * each;
    stretch = LengthOfStretch(steps, state.Seconds() - begin);
  }
}

absl::StatusOr<SearchResult> SearchAnnealing(const SearchProblem& problem,
                                             const SearchOptions& options) {
  SearchState state(problem, options);
  ASSIGN_OR_RETURN(const std::vector<WalkPoint> starts,
                   EvaluateStarts(problem, options, state, {.most = kMostOfGatheredWalks}));
  Anneal(problem, options, state, {starts, state.left()});
  return state.Finish();
}

}  // namespace partita
