#pragma once

#include <random>

#include "graph/graph.h"
#include "graph/training/training_graph.h"

namespace partita {

// A small random model: convolutions (groups, strides, dilations, uneven padding), pools, norms,
// residuals, concatenations, broadcasting, tied weights and whatever else the operator table has,
// ending in logits. Every floating type is kFloat32.
Graph RandomModel(std::mt19937_64& random);

// The same with random control edges from operators to later ones.
Graph WithRandomEdges(const Graph& graph, std::mt19937_64& random);

// Its training graph with a random loss and optimizer, sometimes with several microbatches or with
// control edges. Labels lie in [0, logits' last extent).
Graph RandomTrainingGraph(std::mt19937_64& random);

}  // namespace partita
