#pragma once

#include <random>

#include "graph/graph.h"
#include "graph/parallel/strategy.h"
#include "graph/partition/partition.h"

namespace partita {

// The strategy with random choices for collectives: about half of those outside of buckets run by
// an algorithm drawn among all that do them; all-reduces that fit are in buckets of two and more.
// Precondition: the strategy is valid and has no such choices.
Strategy WithRandomCollectives(const Graph& graph, Strategy strategy,
                               const PartitionOptions& options, std::mt19937_64& random);

}  // namespace partita
