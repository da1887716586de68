#pragma once

#include "graph/partition/exchange_regions.h"
#include "graph/support/span_arena.h"

namespace partita {

// The regions of any boxes, in row-major order of their first corners: cut along one dimension at the
// ends of all boxes, then each segment along the next at the ends of those boxes that reach into it, and
// so on, dimensions that boxes are apart along first; a segment that one side does not reach is left.
// Takes time in proportion to the regions' boxes and what covers each, times the dimensions along which
// boxes differ. Neither side is empty.
Regions SweptRegions(const DistinctBoxes& sources, const DistinctBoxes& wants, SpanArena& lists);

}  // namespace partita
