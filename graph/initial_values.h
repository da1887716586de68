#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace partita {

// Initial values of a weight: the model's own, otherwise what its Initializer says, drawn from the
// stream of the weight's name, so that it depends on nothing but seed, name and shape. Row-major.
// States start at 0.
std::vector<float> InitialValues(const Tensor& tensor, const Weight& weight, uint64_t seed);

}  // namespace partita
