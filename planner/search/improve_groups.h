#pragma once

#include <cstdint>

#include "planner/search/search_state.h"

namespace partita {

// Goes over the groups of the best strategy so far, a group being the operators that are like each
// other and have one configuration: each gets the best of its first operator's NeighbourSplits, all
// of it at once. Again until a whole round improves nothing, or after so many evaluations. Repeated
// blocks thus cost as one, and no chance is in it.
void ImproveGroups(const SearchProblem& problem, SearchState& state, int64_t budget);

}  // namespace partita
