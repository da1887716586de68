#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "graph/support/strong_int.h"
#include "graph/task/task_graph.h"
#include "planner/simulator/flat_tasks.h"
#include "planner/simulator/priorities.h"

namespace partita {

// Schedule of each task's start and end. Vectors are by task.
struct Schedule {
  std::vector<Nanos> start, end;
  Nanos makespan;           // the last end; 0 without tasks
  std::vector<Nanos> busy;  // busy time of each resource: the sum of the durations of the tasks
                            // that hold it
};

// The schedule of one step. It is defined, not found: the unique one in which
//   a task is ready when its last predecessor ends (at 0 without any),
//   at every time, in the order (priority, key), each task that is ready and all of whose resources
//     are free starts (list scheduling: Graham, SIAM J. Appl. Math. 1969), but for tasks of several
//     resources of a tensor that only updates of weights read, such as sums of gradients: one does
//     not start while another task that got ready before, or at the time with a larger priority,
//     and is none of these, has yet to start on a resource of its.
//     So a long all-reduce of gradients does not take a device for which something is ready that
//     the rest of the step waits for, and that only lacks another device for a moment,
//   end = start + duration, and between them the task has its resources for itself.
// By a rule with Priority::by_readiness the second line is: every resource serves its tasks one at a
// time in the order (ready, priority, key). Priorities are those of a rule (Priorities) under urgencies of
// subjects (UrgenciesOf), larger ones first; keys are TaskKeys.
//
// Durations are at least 1 ns (checked); so (start, key) is a total order that respects
// dependencies and the order of service of every resource. Sums of durations fit 63 bits.
Schedule Simulate(const FlatTasks& tasks, std::span<const Nanos> durations,
                  const Priority& priority = DefaultPriority(),
                  std::span<const int32_t> urgencies = {});

// The schedule in which every resource serves its tasks in the given order (topological, each task
// once), as the lanes of an executor do: start = max(end of predecessors, end of the task before it
// on each of its resources). With OrderOf(Simulate()) it is the same schedule.
//
// `waits`: pairs (task, task that must have ended before) beyond the dependencies of the tasks:
// BufferAssignment::added_dependencies; sorted, each pointing backwards in the order.
Schedule SimulateInOrder(const FlatTasks& tasks, std::span<const Nanos> durations,
                         std::span<const TaskId> order,
                         std::span<const std::pair<TaskId, TaskId>> waits = {});

// All tasks by (start, key): the total order in which lanes run.
std::vector<TaskId> OrderOf(const FlatTasks& tasks, const Schedule& schedule);

}  // namespace partita
