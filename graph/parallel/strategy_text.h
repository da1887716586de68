#pragma once

#include <string>

#include "graph/graph.h"
#include "graph/parallel/strategy.h"

namespace partita {

// Text of a strategy for people: a line "NAME CONFIGURATION" for each anchor, one for each layout
// of a weight that is not the default, "weight NAME parameter|update BOX on DEVICE, ...", and the
// host device; one for each collective with a chosen algorithm and for each bucket. Precondition:
// ValidateSizes holds.
std::string StrategyText(const Graph& graph, const Strategy& strategy);

}  // namespace partita
