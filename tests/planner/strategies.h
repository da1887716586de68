#pragma once

#include <vector>

#include "graph/graph.h"
#include "graph/parallel/strategy.h"
#include "graph/task/task_graph.h"

namespace partita {

// Strategies for tests and benchmarks of planning, and what is asked of their tasks.

// Every operator split `devices` ways along its first loop that can be (the sample of most), part p
// on device p; otherwise whole on device 0.
Strategy SplitFirstLoop(const Graph& graph, int devices);

// The all-reduces of weights' gradients, in the order of the tasks.
std::vector<CollectiveStepId> GradientSums(const Graph& graph, const TaskGraph& tasks);

}  // namespace partita
