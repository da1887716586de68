#pragma once

#include "graph/task/task_graph.h"

namespace partita {

// Rewrites pairs of compute tasks on one device, where the second is a ReLU that is the only reader
// of the first's only output and the first is an operator that can apply it before storing
// (CanFuseRelu), into one kernel. Everything else stays as it is.
TaskGraph FuseActivations(const TaskGraph& graph);

}  // namespace partita
