#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/simulator/simulator.h"

namespace partita {

// List scheduling (Graham, SIAM J. Appl. Math. 1969): whenever tasks become ready or resources
// free, every task that is ready and all of whose resources are free starts, in the order of
// `by_rank`, which has each task once. Fills in starts and ends. Precondition: those of Simulate.
void FillListSchedule(const FlatTasks& tasks, std::span<const Nanos> durations,
                      std::span<const int32_t> by_rank, Schedule& schedule);

}  // namespace partita
