#pragma once

#include <cstdint>

#include "planner/search/walk.h"

namespace partita {

// Which operators that have one configuration are a group: those of equal shapes (ShapeClasses),
// those that are like each other (LikeClasses), or each by itself.
enum class Grouping { kOfShapes, kOfLike, kSingle };

// Changes the groups of a strategy, each as a whole, as long as that makes it faster: to its first
// operator's NeighbourSplits, TradedSplits or ShiftedSplits, or to another EvenPlacement of the
// weights that it reads as one operand; always the best of those of one kind. Descends until none of
// them improves, or so many evaluations are spent; groups that a change may have affected, as they
// are next to it, come before all others. Repeated blocks thus cost as one, and no chance is in it. A
// point that does not fit in memory is returned as it is.
WalkPoint ImproveGroups(const SearchProblem& problem, SearchState& state, WalkPoint from,
                        Grouping grouping, int64_t budget);

}  // namespace partita
