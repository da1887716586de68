#pragma once

#include <random>
#include <vector>

#include "graph/parallel/decision.h"
#include "planner/space/search_space.h"

// Moves (planner/space/moves.h) on stages. A stage is a run of the space's operators, in their
// order, whose parts are on the same devices, one part on each.

namespace partita {

// Cuts a stage in two: what is before the cut stays on the first half of its devices, the rest goes
// on the other half. Empty where no operator of the stage drawn can do with half of the devices.
std::vector<Decision> SplitStage(const SearchSpace& space, const Strategy& strategy,
                                 std::mt19937_64& random);

// Puts a stage and the one after it on the devices of both. Empty unless these are apart and as many.
std::vector<Decision> JoinStages(const SearchSpace& space, const Strategy& strategy,
                                 std::mt19937_64& random);

}  // namespace partita
