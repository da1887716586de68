#pragma once

#include "graph/task/buffer_assignment.h"
#include "graph/task/task_graph.h"
#include "graph/task/timeline.h"

namespace partita {

// Sets the memory of the timeline's details, and the peaks, as AddDetails says. `memory` is of
// `tasks`, and the timeline is of a step of them.
void AddMemory(const TaskGraph& tasks, const BufferAssignment& memory, Timeline& timeline);

}  // namespace partita
