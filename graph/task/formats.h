#pragma once

#include "graph/task/task_graph.h"

namespace partita {

// Lets buffers keep the backend's native format between kernels. A buffer becomes native if it
// holds float32 of rank 4 and everything that touches it can: kernels of operators that say so
// (NativeUse), copies and sums between equal boxes, and collectives over whole equal pieces. What
// an operator needs in one format with another buffer decides with it. Everything else stays dense,
// so no data change format outside kernels.
TaskGraph AssignFormats(const TaskGraph& graph);

}  // namespace partita
