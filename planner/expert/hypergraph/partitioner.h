#pragma once

#include <cstdint>
#include <vector>

#include "planner/expert/hypergraph/hypergraph.h"

namespace partita {

struct PartitionerOptions {
  int32_t parts = 2;
  double imbalance = 0.05;  // a part weighs at most (1 + imbalance) * total / parts
  int runs = 4;             // the best of as many is taken
  uint64_t seed = 1;
};

// The most that a part may weigh.
int64_t PartLimit(const Hypergraph& hypergraph, const PartitionerOptions& options);

// A part for each vertex that keeps ConnectivityMinusOne small: recursive bisection by levels, and
// moves of single vertices between all parts. Parts keep to PartLimit unless no such partition was
// found, as where vertices are too heavy: HeaviestPart tells. The same for equal arguments.
std::vector<int32_t> PartitionHypergraph(const Hypergraph& hypergraph,
                                         const PartitionerOptions& options);

}  // namespace partita
