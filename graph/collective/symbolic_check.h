#pragma once

#include "absl/status/status.h"
#include "graph/collective/schedule.h"

namespace partita {

// Runs the schedule on symbols instead of numbers and proves that it does the collective: at the
// end every element that a rank wants holds the contribution of each rank that it should exactly
// once, and nothing else. Also checks the contract of schedule.h: ranks and ranges in bounds, no
// empty step, no elements moved to another place (in place), no two writes of one element in a
// round but reductions of the same range from different ranks, no sending of what the round
// overwrites unless the round says so. And that no message is wasted: none delivers what is already
// there or never used.
//
// Elements that every step treats alike are one symbol, so the cost depends on the number of steps
// and ranks, not on the number of elements. InvalidArgument if the collective is not valid;
// Internal with the first fault, naming round, rank, elements and what is missing, doubled or
// undefined.
absl::Status CheckSchedule(const Collective& collective, const CollectiveSchedule& schedule);

}  // namespace partita
