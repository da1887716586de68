#include "graph/collective/hierarchical.h"

#include <algorithm>
#include <map>
#include <utility>

#include "graph/collective/ring.h"
#include "graph/support/check.h"

namespace partita {
namespace {

// The ranks of each node, ascending; nodes in order of their first rank.
std::vector<std::vector<int>> RanksOfNodes(int ranks, const std::vector<int>& node_of_rank) {
  std::vector<std::vector<int>> nodes;
  std::map<int, size_t> places;
  for (int rank = 0; rank < ranks; ++rank) {
    const int node = node_of_rank.empty() ? 0 : node_of_rank[static_cast<size_t>(rank)];
    const auto [place, first] = places.try_emplace(node, nodes.size());
    if (first) nodes.emplace_back();
    nodes[place->second].push_back(rank);
  }
  return nodes;
}

// Between each slice's owners and the other ranks of their nodes.
CollectiveRound WithinNodes(const std::vector<std::vector<int>>& nodes,
                            const std::vector<ElementRange>& slices, StepAction action) {
  CollectiveRound round;
  for (const std::vector<int>& ranks : nodes) {
    for (size_t s = 0; s < slices.size(); ++s) {
      for (const int rank : ranks) {
        if (rank == ranks[s]) continue;
        if (action == StepAction::kReduce) {
          AddStep(round, rank, ranks[s], slices[s], action);
        } else {
          AddStep(round, ranks[s], rank, slices[s], action);
        }
      }
    }
  }
  return round;
}

// A ring of the owners of each slice.
std::vector<CollectiveRound> BetweenNodes(const std::vector<std::vector<int>>& nodes,
                                          const std::vector<ElementRange>& slices) {
  std::vector<CollectiveRound> rounds(2 * (nodes.size() - 1));
  for (size_t s = 0; s < slices.size(); ++s) {
    const Collective ring = MakeAllReduce(static_cast<int>(nodes.size()), slices[s].count);
    const CollectiveSchedule schedule = RingSchedule(ring, {});
    // Where blocks are empty, so may be rounds: the others come earlier then, in all of the slice.
    for (size_t r = 0; r < schedule.rounds.size(); ++r) {
      for (CollectiveStep step : schedule.rounds[r].steps) {
        AddStep(rounds[r], nodes[static_cast<size_t>(step.from)][s],
                nodes[static_cast<size_t>(step.to)][s],
                {slices[s].offset + step.source_offset, step.count}, step.action);
      }
    }
  }
  return rounds;
}

}  // namespace

CollectiveSchedule HierarchicalSchedule(const Collective& collective,
                                        const ScheduleOptions& options) {
  CHECK(collective.kind == CollectiveKind::kAllReduce)
      << "hierarchical does not do " << Name(collective.kind);
  const auto nodes = RanksOfNodes(collective.ranks, options.nodes);
  size_t owners = nodes[0].size();
  for (const auto& ranks : nodes) owners = std::min(owners, ranks.size());
  const auto slices = EvenBlocks(collective.total, static_cast<int>(owners));
  CollectiveSchedule schedule{.ranks = collective.ranks, .rounds = {}};
  AddRound(schedule, WithinNodes(nodes, slices, StepAction::kReduce));
  for (CollectiveRound& round : BetweenNodes(nodes, slices)) AddRound(schedule, std::move(round));
  AddRound(schedule, WithinNodes(nodes, slices, StepAction::kCopy));
  return schedule;
}

}  // namespace partita
