#pragma once

#include <random>

#include "graph/graph.h"
#include "runtime/serial/serial_trainer.h"

namespace partita {

// A training graph that computes without rounding on small integers: convolutions, products,
// sums, ReLU, maximum pools, concatenations, the sum of squares as loss, SGD with or without
// Nesterov. Every floating type is kFloat32.
Graph RandomExactGraph(std::mt19937_64& random);

// Small integers, many of them 0, as weights, states and input. Rate and momentum of ExactStep are
// powers of two.
void FillWithSmallIntegers(SerialTrainer& trainer, std::mt19937_64& random);
StepArguments ExactStep();

// The largest sum of magnitudes in the trainer's last step: for every element of every tensor, the
// sum of |term| over all that is added up for it, intermediate results of parts included however
// the step is split. While it stays below 2^24 (less the fraction's bits), no order of summation
// rounds. Only for the operators of RandomExactGraph.
double LargestSumOfMagnitudes(const SerialTrainer& trainer, const StepArguments& arguments);

}  // namespace partita
