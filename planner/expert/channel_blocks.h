#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "graph/parallel/parallel_config.h"
#include "planner/expert/hypergraph/hypergraph.h"
#include "planner/space/search_space.h"

namespace partita {

// A model as a hypergraph. Its vertices are blocks of the channels (neurons, features) that each
// operator makes; an operator that reads one activation block by block shares that one's vertices.
// Weights are multiply-adds and other operations of the forward pass. Nets are what blocks send: the
// elements of an operator's block, with the block itself and all that read from it as pins; and the
// elements of weights that several vertices read.
class ChannelBlocks {
 public:
  // At most `most_blocks` blocks of an operator, fewer in models of many operators. `space` is of
  // the graph.
  ChannelBlocks(const Graph& graph, const SearchSpace& space, int64_t most_blocks);

  const Hypergraph& hypergraph() const { return hypergraph_; }

  // The partition in which blocks of one part lie side by side in every operator, if that does not
  // send more.
  std::vector<int32_t> InOrder(std::vector<int32_t> parts) const;

  // The configuration of an anchor whose blocks are on the devices of their parts, in as few parts
  // of its own as that takes.
  ParallelConfig ConfigOf(const Operator& op, const std::vector<int32_t>& parts) const;

 private:
  friend class ChannelBlocksBuilder;
  struct Blocks {
    int loop = -1;                 // -1: one block, the whole operator
    int32_t first = 0, count = 1;  // its vertices: neighbours
  };

  const Graph& graph_;
  std::vector<Blocks> blocks_;  // indexed by OpId; of anchors
  Hypergraph hypergraph_{{}, {}};
};

}  // namespace partita
