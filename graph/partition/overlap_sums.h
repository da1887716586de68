#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/partition/exchange.h"
#include "graph/partition/exchange_regions.h"

namespace partita {

// Sums of terms that reach their demands one by one: what each piece has of each demand is one box,
// where regions are cut at the ends of all boxes. Blocks with halos, and results of several operators
// that are split otherwise, have several times as many of these. Terms of which many are of one box are
// left to collectives, to whose sums the others are added.
struct OverlapSums {
  struct Part {
    std::span<const Box> box;  // one
    int32_t piece = 0;
    std::span<const int32_t> demand;  // one
    // Whether it has elements in common with a collective's boxes, or with an earlier part of the demand.
    bool adds = false;
  };
  std::vector<Part> parts;  // by demand; of each, those of pieces of its own device come first
  std::vector<std::vector<Box>> boxes;  // that parts refer to, in chunks
  DistinctBoxes of_collectives;
};

// Finds those of pieces with these distinct boxes for the demands of `wants`, to which parts refer.
// nullopt where regions are better, or have to be:
// - some element is wanted twice, or the wanted boxes are no product;
// - a term has several pieces;
// - a few pieces have one box, whose sum is a collective's, but not most of what is sent; each element
//   has many other terms; or there are no others;
// - devices could add much of what they send before they send it.
std::optional<OverlapSums> FindOverlapSums(std::span<const Piece> pieces,
                                           std::span<const Demand> demands,
                                           const DistinctBoxes& sources,
                                           const DistinctBoxes& wants);

}  // namespace partita
