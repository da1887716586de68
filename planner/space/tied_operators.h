#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace partita {

// Sets of anchors that share weights, as the steps of a recurrent layer do: those that read a weight
// together, and with them operators without weights that read what one set makes, and no other's.
// The set of each operator, by OpId, numbered from 0 in the order of their first members; -1 for what
// is in none.
std::vector<int32_t> TiedSets(const Graph& graph);

}  // namespace partita
