#pragma once

#include "graph/partition/exchange_regions.h"
#include "graph/support/span_arena.h"

namespace partita {

// The regions of FindRegions by their definition: every cell of the grid that the ends of all boxes
// make is looked up in every box. Takes time in proportion to cells times boxes.
Regions GridRegions(const DistinctBoxes& sources, const DistinctBoxes& wants, SpanArena& lists);

}  // namespace partita
