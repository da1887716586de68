#pragma once

#include <vector>

#include "planner/space/search_space.h"

namespace partita {

// Configurations of an operator that cost little communication, each once, without the one that it
// has: as the operators around it are split under the strategy, whose makers of its operands are
// followed block by block, too; and on their devices, or its own, along one loop, or as copies.
std::vector<ParallelConfig> NeighbourSplits(const SearchSpace& space, const Strategy& strategy,
                                            OpId op);

}  // namespace partita
