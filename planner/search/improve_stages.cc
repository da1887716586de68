#include "planner/search/improve_stages.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "graph/parallel/decision.h"
#include "planner/space/stage_moves.h"

namespace partita {
namespace {

// Pieces of about equal numbers of operators, between which a stage may be cut.
constexpr size_t kPieces = 8;
// Parts, about, of the shorter of two stages that go from one to the other.
constexpr size_t kShifts[] = {4, 16};

using Decisions = std::vector<Decision>;

// Changes of stages, at cuts that few bytes go across.
class StageChanges {
 public:
  explicit StageChanges(const SearchSpace& space) : space_(space), bytes_(BytesAcrossCuts(space)) {}

  std::vector<Decisions> Of(const Strategy& strategy) const {
    const std::vector<Stage> stages = StagesOf(space_, strategy);
    std::vector<Decisions> changes;
    for (size_t s = 0; s < stages.size(); ++s) {
      AddCuts(strategy, stages[s], changes);
      if (s + 1 == stages.size()) break;
      AddShifts(strategy, std::span(stages).subspan(s).first<2>(), changes);
    }
    std::erase_if(changes, [](const Decisions& change) { return change.empty(); });
    return changes;
  }

 private:
  void AddCuts(const Strategy& strategy, const Stage& stage,
               std::vector<Decisions>& changes) const {
    const size_t operators = stage.end - stage.begin;
    size_t last = stage.begin;
    for (size_t piece = 1; piece < kPieces; ++piece) {
      const size_t middle = stage.begin + operators * piece / kPieces;
      const size_t cut = NarrowestNear(middle, operators / (2 * kPieces), stage.begin, stage.end);
      if (cut == std::exchange(last, cut)) continue;
      changes.push_back(SplitStageAt(space_, strategy, stage, cut));
    }
  }

  void AddShifts(const Strategy& strategy, std::span<const Stage, 2> stages,
                 std::vector<Decisions>& changes) const {
    const size_t end = stages[0].end;
    const size_t shorter = std::min(end - stages[0].begin, stages[1].end - end);
    size_t last = 0;
    for (size_t part : kShifts) {
      const size_t shift = std::max<size_t>(1, shorter / part);
      if (shift >= shorter || shift == std::exchange(last, shift)) continue;
      for (size_t middle : {end - shift, end + shift}) {
        const size_t cut = NarrowestNear(middle, shift / 2, stages[0].begin, stages[1].end);
        changes.push_back(ShiftStages(space_, strategy, stages, cut));
      }
    }
  }

  // The cut between `begin` and `end` that fewest bytes go across, of those at most `reach` from the
  // middle; of equal ones the nearest to it.
  size_t NarrowestNear(size_t middle, size_t reach, size_t begin, size_t end) const {
    size_t best = middle;
    for (size_t distance = 1; distance <= reach; ++distance) {
      if (middle >= begin + 1 + distance && bytes_[middle - distance] < bytes_[best]) {
        best = middle - distance;
      }
      if (middle + distance < end && bytes_[middle + distance] < bytes_[best]) {
        best = middle + distance;
      }
    }
    return best;
  }

  const SearchSpace& space_;
  const std::vector<int64_t> bytes_;  // across each cut
};

// The fastest of the point's strategies with one of these changes each; nullopt where none is faster
// than the point, or the search is to stop.
std::optional<WalkPoint> FastestOf(std::span<const Decisions> changes, const WalkPoint& point,
                                   const SearchProblem& problem, SearchState& state) {
  std::optional<WalkPoint> fastest;
  for (size_t begin = 0; begin < changes.size();) {
    if (state.Done()) return std::nullopt;
    const Nanos cutoff = fastest.has_value() ? fastest->time : point.time;
    const size_t count = state.TrialsLeft(changes.size() - begin);
    std::vector<Strategy> strategies(count, point.strategy);
    std::vector<Trial> trials;
    for (Strategy& strategy : strategies) {
      Decide(problem.space.graph(), strategy, changes[begin++]);
      trials.push_back({&strategy, &point.name, cutoff});
    }
    const std::vector<Evaluation> evaluations = state.TryAll(trials);
    for (size_t k = 0; k < count; ++k) {
      const Evaluation& evaluation = evaluations[k];
      if (evaluation.verdict == Evaluation::Verdict::kInterrupted) return std::nullopt;
      if (!evaluation.feasible() || evaluation.peak.empty()) continue;  // or beyond the cutoff
      if (evaluation.time >= (fastest.has_value() ? fastest->time : point.time)) continue;
      fastest = PointOf(point.name, std::move(strategies[k]), evaluation, problem.evaluator);
    }
  }
  return fastest;
}

}  // namespace

WalkPoint ImproveStages(const SearchProblem& problem, SearchState& state, WalkPoint from,
                        int64_t budget) {
  const int64_t end = state.evaluations() + budget;
  const StageChanges stage_changes(problem.space);
  while (state.evaluations() < end) {
    std::vector<Decisions> changes = stage_changes.Of(from.strategy);
    const auto left = static_cast<size_t>(end - state.evaluations());
    if (changes.size() > left) changes.resize(left);
    auto fastest = FastestOf(changes, from, problem, state);
    if (!fastest.has_value()) break;
    from = *std::move(fastest);
    state.CountAccepted(0, from.name, "stages", from.time);
  }
  return from;
}

}  // namespace partita
