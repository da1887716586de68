#pragma once

#include <span>

#include "graph/task/buffer_assignment.h"
#include "graph/task/task_graph.h"
#include "graph/task/timeline.h"

namespace partita {

// Sets the memory of the timeline's details, and the peaks, as AddDetails says. `memory` is of
// `tasks`, and the timeline is of a step of them; entry e is of task_of_entry[e], -1: of none.
void AddMemory(const TaskGraph& tasks, const BufferAssignment& memory,
               std::span<const TaskId> task_of_entry, Timeline& timeline);

}  // namespace partita
