#pragma once

#include <cstdint>

#include "planner/search/walk.h"

namespace partita {

// Cuts the stages of a strategy that fits (planner/space/stage_moves.h) in two, at several
// places each, and shifts where one ends and the next begins: again from the fastest of these until a
// whole round improves nothing, or after so many evaluations. Returns the last. No chance is in it.
WalkPoint ImproveStages(const SearchProblem& problem, SearchState& state, WalkPoint from,
                        int64_t budget);

}  // namespace partita
