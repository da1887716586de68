#pragma once

#include <optional>
#include <span>
#include <string>

#include "graph/tensor.h"

namespace partita {

// How two copies of a weight or state differ, for a message; nothing if they agree. Copies agree
// bit for bit, as Exchange makes them. `rounded_apart`: they were computed on backends that round
// each in its own way; floats then agree if all are finite and no element differs by more than
// float32's tolerance of the largest one's magnitude.
std::optional<std::string> DifferenceOfCopies(DType dtype, std::span<const char> left,
                                              std::span<const char> right, bool rounded_apart);

}  // namespace partita
