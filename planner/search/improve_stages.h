#pragma once

#include <cstdint>

#include "planner/search/search_state.h"

namespace partita {

// Cuts the stages of the best strategy so far (planner/space/stage_moves.h) in two, at several narrow places
// each, and shifts where one ends and the next begins: again from the best of these until a whole
// round improves nothing, or after so many evaluations. No chance is in it.
void ImproveStages(const SearchProblem& problem, SearchState& state, int64_t budget);

}  // namespace partita
