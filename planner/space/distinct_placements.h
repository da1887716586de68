#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/parallel/decision.h"

namespace partita {

// Places of those candidates for a weight that no earlier one is equal to: of the same layouts, where
// operators are split and placed as in the strategy, and, if anything has to be gathered, of one prefetch
// distance. Steps with equal ones are equal. All places where a configuration of the strategy does not
// fit. Precondition: the candidates are of that weight, and valid.
std::vector<size_t> DistinctPlacements(const Graph& graph, const Strategy& strategy, size_t weight,
                                       std::span<const Decision> candidates);

}  // namespace partita
