#pragma once

#include "graph/graph.h"
#include "graph/parallel/strategy.h"

namespace partita {

// Strategies for tests and benchmarks of planning.

// Every operator split `devices` ways along its first loop that can be (the sample of most), part p
// on device p; otherwise whole on device 0.
Strategy SplitFirstLoop(const Graph& graph, int devices);

}  // namespace partita
