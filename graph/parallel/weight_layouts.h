#pragma once

#include <vector>

#include "graph/graph.h"
#include "graph/parallel/parts.h"
#include "graph/parallel/strategy.h"

namespace partita {

// Both layouts of one weight, with the defaults filled in.
struct WeightLayouts {
  std::vector<PlacedBox> parameter;
  std::vector<PlacedBox> update;
};

// The layouts of every weight, by position in graph.weights(). `parts` are the parts of every
// operator, by OpId (those of updates are not read). The default parameter layout is the union of
// what operators demand, where they demand it, maximal boxes only; regions that nobody demands go
// to the host device. A weight that only its update reads (running statistics) lives where the
// update's other inputs are wanted anyway.
std::vector<WeightLayouts> ResolveWeightLayouts(const Graph& graph, const Strategy& strategy,
                                                const std::vector<std::vector<Part>>& parts);

}  // namespace partita
