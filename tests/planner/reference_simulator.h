#pragma once

#include <span>

#include "planner/simulator/simulator.h"

namespace partita {

// The definition of a schedule by readiness, step by step, in cubic time: of all tasks whose predecessors have
// ended, the one first in the order (ready, priority, key) starts when the last task that shares a
// resource with it has ended. The priority of a task is the longest chain that begins with it.
Schedule ReferenceSimulate(const FlatTasks& tasks, std::span<const Nanos> durations);

}  // namespace partita
