#pragma once

#include <optional>

#include "graph/partition/exchange_regions.h"
#include "graph/support/span_arena.h"

namespace partita {

// The regions of boxes that are products: along each dimension some intervals, and a box for every
// combination of them, on both sides. Each region is a product, too, so that it is enough to look at
// one dimension after another. Takes time in proportion to the regions and their lists. nullopt for
// other boxes. Neither side is empty.
std::optional<Regions> ProductRegions(const DistinctBoxes& sources, const DistinctBoxes& wants,
                                      SpanArena& lists);

}  // namespace partita
