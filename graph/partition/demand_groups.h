#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "graph/parallel/weight_layouts.h"

namespace partita {

// Consumers of a tensor whose demands may share buffers.
struct DemandGroup {
  std::vector<OpId> consumers;  // ascending
  std::vector<OpId> after;      // operators that hold back the exchange for them; ascending
};

// The consumers of a tensor by their control edges, a weight's also by what they do: those of
// forward operators, of gradients and of updates may be gathered apart (WeightPlacement::prefetch).
// A fact of the graph: `after` is that of the operators. In the order of the first consumers; one
// group without consumers where no operator reads the tensor.
std::vector<DemandGroup> FindDemandGroups(const Graph& graph, const Tensor& tensor);

// The same groups under a weight's layouts: without a prefetch distance those of equal edges are
// joined in the first of them; with one, forward operators and gradients wait for the operator that
// opens their gather. Groups whose consumers have gone to another one stay, empty.
std::vector<DemandGroup> ApplyGathers(const Graph& graph, const WeightLayouts& layouts,
                                      std::vector<DemandGroup> groups);

// One group for all, in the first place, with the edges that all share: for a tensor whose terms
// have to be added, which is done once.
std::vector<DemandGroup> JoinGroups(std::vector<DemandGroup> groups);

}  // namespace partita
