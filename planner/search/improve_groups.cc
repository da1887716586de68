#include "planner/search/improve_groups.h"

#include <algorithm>
#include <span>
#include <string>
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

// The best strategy with each of the configurations for the group, as far as they fit its operators.
std::vector<Strategy> Proposals(const SearchSpace& space, const Strategy& best,
                                const std::vector<OpId>& group,
                                std::span<const ParallelConfig> configs) {
  std::vector<Strategy> proposals;
  for (const ParallelConfig& config : configs) {
    Strategy& proposal = proposals.emplace_back(best);
    for (OpId op : group) {
      if (space.Fits(op, config)) Decide(space.graph(), proposal, OperatorDecision{op, config});
    }
  }
  return proposals;
}

// False where the search stopped.
bool TryProposals(std::span<const Strategy> proposals, SearchState& state) {
  const std::string origin = state.origin();
  while (!proposals.empty()) {
    if (state.Done()) return false;
    const size_t count = state.TrialsLeft(proposals.size());
    std::vector<Trial> trials;
    for (const Strategy& proposal : proposals.first(count)) {
      trials.push_back({&proposal, &origin, state.best_time()});
    }
    for (const Evaluation& evaluation : state.TryAll(trials)) {
      if (evaluation.verdict == Evaluation::Verdict::kInterrupted) return false;
    }
    proposals = proposals.subspan(count);
  }
  return true;
}

}  // namespace

void ImproveGroups(const SearchProblem& problem, SearchState& state, int64_t budget) {
  const int64_t end = state.evaluations() + budget;
  bool improved = state.has_best();
  while (improved) {
    improved = false;
    for (OpId op : problem.space.operators()) {
      const Strategy best = state.best();
      const std::vector<OpId> group = GroupOf(problem.space, best, op);
      if (group.empty()) continue;
      if (state.evaluations() >= end) return;
      const Nanos before = state.best_time();
      const std::vector<ParallelConfig> configs = NeighbourSplits(problem.space, best, op);
      if (!TryProposals(Proposals(problem.space, best, group, configs), state)) return;
      if (state.best_time() == before) continue;
      improved = true;
      state.CountAccepted(0, state.origin(), "group", state.best_time());
    }
  }
}

}  // namespace partita
