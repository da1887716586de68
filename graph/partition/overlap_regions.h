#pragma once

#include <optional>

#include "graph/partition/box_product.h"
#include "graph/partition/exchange_regions.h"

namespace partita {

// What each source has of each wanted box, instead of regions: elements that several boxes want come
// once for each. As many as pairs that overlap, and each is one box, where regions are cut at the
// ends of all boxes: of blocks with halos there are several times as many. By wants, then in
// row-major order. Takes time in proportion to the pairs. nullopt where one of the sources would send
// far more than any of the boxes has, or all far more than they hold: there, what several want is
// better sent once and passed on.
// `grid`: product of the sources, which are disjoint.
std::optional<Regions> OverlapRegions(const DistinctBoxes& sources, const BoxProduct& grid,
                                      const DistinctBoxes& wants);

// The same where sources have elements in common, whose sums are wanted, and wants have none: by
// sources, then in row-major order. nullopt where one of the wants would get far more than any of the
// boxes has, or all far more than they want.
// `grid`: product of the wants.
std::optional<Regions> OverlapsOfTerms(const DistinctBoxes& sources, const DistinctBoxes& wants,
                                       const BoxProduct& grid);

}  // namespace partita
