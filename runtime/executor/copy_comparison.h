#pragma once

#include <span>

#include "graph/tensor.h"

namespace partita {

// Whether two copies of a weight or state agree as far as those of different backends can, which
// round each in its own way: no element differs by more than float32's tolerance of the largest
// one's magnitude. Types other than floats agree only bit for bit, and so do values that are not
// finite.
bool CopiesAgree(DType dtype, std::span<const char> left, std::span<const char> right);

}  // namespace partita
