#include "planner/search/improve_stages.h"

#include <algorithm>
#include <cstdint>
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

}  // namespace

void ImproveStages(const SearchProblem& problem, SearchState& state, int64_t budget) {
  const int64_t end = state.evaluations() + budget;
  const StageChanges stage_changes(problem.space);
  while (state.has_best() && state.evaluations() < end) {
    const Strategy best = state.best();
    const Nanos before = state.best_time();
    std::vector<Decisions> changes = stage_changes.Of(best);
    const auto left = static_cast<size_t>(end - state.evaluations());
    if (changes.size() > left) changes.resize(left);
    const bool goes_on = state.TryInPlaceOfBest(changes.size(), [&](size_t k) {
      Strategy changed = best;
      Decide(problem.space.graph(), changed, changes[k]);
      return changed;
    });
    if (!goes_on || state.best_time() == before) return;
    state.CountAccepted(0, state.origin(), "stages", state.best_time());
  }
}

}  // namespace partita
