#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "graph/partition/fragment.h"

namespace partita {

// Elements of a tensor that a device, or a node, lacks and gets from others in a step.
struct Arrivals {
  std::vector<int64_t> at_device;  // indexed by DeviceId: from other devices
  std::vector<int64_t> at_node;    // indexed by node: from other nodes
};

// Least elements that arrive, whatever way Exchange finds, for what operators read of a tensor that
// operators make: from the boxes alone, without building a fragment. An element that sums several
// terms has to arrive where any of them is lacking. Empty lists where nothing is known: for tensors
// that persist or come from the host, and where the pieces are no grid. `node_of_device`: empty for
// one node.
Arrivals LeastArrivals(const Graph& graph, const Tensor& tensor, PartsByOp parts,
                       std::span<const int32_t> node_of_device, int devices);

}  // namespace partita
