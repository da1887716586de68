#pragma once

#include <cstdint>
#include <span>

#include "planner/search/walk.h"
#include "planner/space/operator_groups.h"

namespace partita {

// Changes the groups of a strategy, each as a whole, as long as that makes it faster (GroupChanges); always
// to the best of those of one kind. Descends until none of them improves, or so many evaluations are spent.
// Groupings come in their order, first the groups for which the step waits longest
// (Evaluator::CriticalTimes), and all repeats (OperatorGroup::is_repeat) at the end; after a change those
// that it may have affected, as they are next to it, come before all others. On many devices changes that
// by themselves cost much more than what they replace are tried when no other is left, and weights of
// groups for which the step waits little. Repeated blocks thus cost as one, and no chance is in it. A point
// that does not fit in memory is returned as it is. Ends, too, where a part of a search
// (SearchProblem::is_part) gains little.
WalkPoint ImproveGroups(const SearchProblem& problem, SearchState& state, WalkPoint from,
                        std::span<const Grouping> groupings, int64_t budget);

}  // namespace partita
