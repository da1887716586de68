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
void WriteWithinNodes(const std::vector<std::vector<int>>& nodes,
                      const std::vector<ElementRange>& slices, StepAction action,
                      ScheduleWriter& out) {
  for (const std::vector<int>& ranks : nodes) {
    for (size_t s = 0; s < slices.size(); ++s) {
      for (const int rank : ranks) {
        if (rank == ranks[s]) continue;
        if (action == StepAction::kReduce) {
          out.Step(rank, ranks[s], slices[s], action);
        } else {
          out.Step(ranks[s], rank, slices[s], action);
        }
      }
    }
  }
  out.EndRound();
}

// A ring of the owners of each slice, all rings at once.
void WriteBetweenNodes(const std::vector<std::vector<int>>& nodes,
                       const std::vector<ElementRange>& slices, ScheduleWriter& out) {
  const auto count = static_cast<int>(nodes.size());
  std::vector<std::vector<ElementRange>> blocks;  // by slice
  bool are_alike = true;
  for (const ElementRange& slice : slices) {
    blocks.push_back(EvenBlocks(slice.count, count));
    are_alike &= AreOfOneSize(blocks.back());
    for (ElementRange& block : blocks.back()) block.offset += slice.offset;
  }
  const auto write_steps = [&](int round) {
    for (size_t s = 0; s < slices.size(); ++s) {
      for (int n = 0; n < count; ++n) {
        CollectiveStep step = RingStep(blocks[s], round, n);
        step.from = nodes[static_cast<size_t>(step.from)][s];
        step.to = nodes[static_cast<size_t>(step.to)][s];
        out.Step(step);
      }
    }
  };
  const int half = RingRounds(count) / 2;  // of which all reduce, or all copy
  for (int begin : {0, half}) {
    for (int round = begin; round < begin + half && out.wants_more(); ++round) {
      write_steps(round);
      if (are_alike && out.EndAlikeRounds(begin + half - round)) break;
      out.EndRound();
    }
  }
}

}  // namespace

void WriteHierarchical(const Collective& collective, const ScheduleOptions& options,
                       ScheduleWriter& out) {
  CHECK(collective.kind == CollectiveKind::kAllReduce)
      << "hierarchical does not do " << Name(collective.kind);
  const auto nodes = RanksOfNodes(collective.ranks, options.nodes);
  size_t owners = nodes[0].size();
  for (const auto& ranks : nodes) owners = std::min(owners, ranks.size());
  const auto slices = EvenBlocks(collective.total, static_cast<int>(owners));
  WriteWithinNodes(nodes, slices, StepAction::kReduce, out);
  WriteBetweenNodes(nodes, slices, out);
  WriteWithinNodes(nodes, slices, StepAction::kCopy, out);
}

}  // namespace partita
