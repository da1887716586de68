#pragma once

#include <span>
#include <utility>
#include <vector>

#include "planner/simulator/flat_tasks.h"
#include "planner/simulator/simulator.h"

namespace partita {

// The tasks that a schedule's length comes from, in their order: the last one ends last, and each
// before it is what the next one waited for: of its predecessors, of the tasks before it on its
// resources, and of what `waits` say (as in SimulateInOrder) the one that ended last, a predecessor where
// several did; the first by key of those that are equal in that. Where each starts as soon as it can,
// their durations add up to the length. Empty without tasks.
std::vector<TaskId> CriticalChain(const FlatTasks& tasks, const Schedule& schedule,
                                  std::span<const std::pair<TaskId, TaskId>> waits = {});

}  // namespace partita
