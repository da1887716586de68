#pragma once

#include <span>
#include <vector>

#include "cost_model/cost_model.h"
#include "graph/support/strong_int.h"
#include "planner/simulator/flat_tasks.h"
#include "planner/simulator/simulator.h"

namespace partita {

// The durations of tasks under the contention of a schedule: between TaskCost::uncontended and
// TaskCost::time.
//  - compute, moves, loads: by the mean share of the task's time in which each other device of its
//    computer that can work at once is busy;
//  - communication: by the share of its devices whose compute lanes had something else to do, that
//    is whose next task was ready before the communication ended.
// `schedule` is one of these tasks under `durations`, which are what the result starts from: where
// uncontended and time are equal nothing changes.
std::vector<Nanos> ContendedDurations(const FlatTasks& tasks, const SimulatedResources& resources,
                                      std::span<const TaskCost> costs, std::vector<Nanos> durations,
                                      const Schedule& schedule);

}  // namespace partita
