#include "planner/search/improve_groups.h"

#include <span>
#include <vector>

#include "graph/parallel/decision.h"
#include "planner/space/neighbour_splits.h"

namespace partita {
namespace {

// The operators like this one that have its configuration, where it is the first of them; otherwise
// none.
std::vector<OpId> GroupOf(const SearchSpace& space, const Strategy& strategy, OpId op) {
  std::vector<OpId> group;
  for (OpId like : space.AllLike(op)) {
    if (strategy.configs[like.index()] != strategy.configs[op.index()]) continue;
    if (like < op) return {};
    group.push_back(like);
  }
  return group;
}

// The best of the configurations for the group in the best strategy, as far as they fit its
// operators. False where the search stopped.
bool TryForGroup(const SearchSpace& space, const std::vector<OpId>& group,
                 std::span<const ParallelConfig> configs, SearchState& state) {
  const Strategy best = state.best();
  return state.TryInPlaceOfBest(configs.size(), [&](size_t k) {
    Strategy proposal = best;
    for (OpId op : group) {
      if (!space.Fits(op, configs[k])) continue;
      Decide(space.graph(), proposal, OperatorDecision{op, configs[k]});
    }
    return proposal;
  });
}

}  // namespace

void ImproveGroups(const SearchProblem& problem, SearchState& state, int64_t budget) {
  const int64_t end = state.evaluations() + budget;
  bool improved = state.has_best();
  while (improved) {
    improved = false;
    for (OpId op : problem.space.operators()) {
      const std::vector<OpId> group = GroupOf(problem.space, state.best(), op);
      if (group.empty()) continue;
      if (state.evaluations() >= end) return;
      const Nanos before = state.best_time();
      const std::vector<ParallelConfig> configs = NeighbourSplits(problem.space, state.best(), op);
      if (!TryForGroup(problem.space, group, configs, state)) return;
      if (state.best_time() == before) continue;
      improved = true;
      state.CountAccepted(0, state.origin(), "group", state.best_time());
    }
  }
}

}  // namespace partita
