#pragma once

#include <vector>

#include "graph/graph.h"

namespace partita {

bool HasWeights(const Graph& graph, const Operator& op);

// Recurrent layers of a model: cells unrolled over the steps of a sequence, with tied weights. A
// layer is found by its form: operators that read the same weights, and what reads their results
// without weights of its own, where one of them reads a result of another. Empty without any.
// Otherwise the layer of each anchor, by OpId: -1 for those that belong to none.
std::vector<int> RecurrentLayers(const Graph& graph);

// The depth of each anchor, by OpId, from 0 on: how many layers with weights lie before it. All
// cells of a recurrent layer have one depth, that of its first; -1 for what is no anchor.
std::vector<int> Depths(const Graph& graph, const std::vector<int>& recurrent);

}  // namespace partita
