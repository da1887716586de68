#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/partition/exchange.h"
#include "graph/partition/exchange_regions.h"

namespace partita {

// Demands of an exchange by where their values come from. What is near needs no communication of its
// own, and cuts nobody's boxes.
struct NearDemands {
  struct Near {
    int32_t demand = 0;
    int32_t source = 0;  // a piece, or another demand
  };
  // Demands inside a complete piece of their own device.
  std::vector<Near> of_pieces;
  // Demands inside another one of their own device, that is far.
  std::vector<Near> of_demands;
  // The others, but for empty ones; ascending.
  std::vector<int32_t> far;
  // Whether two of a device have elements in common that are far.
  bool far_overlap = false;
};

// Pieces that hold the values of their elements, to which no other term adds.
struct CompletePieces {
  std::vector<bool> is_complete;  // indexed by piece
  bool all = false;
};
// `sources`: distinct boxes of the pieces; `are_disjoint`: none of them have elements in common.
CompletePieces FindCompletePieces(std::span<const Piece> pieces, const DistinctBoxes& sources,
                                  bool are_disjoint);

// Of several demands that contain one, the largest is its source.
NearDemands FindNearDemands(std::span<const Piece> pieces, std::span<const Demand> demands,
                            const CompletePieces& complete);

}  // namespace partita
