#pragma once

#include "graph/precision.h"

namespace partita {

// The largest difference that two correct computations of a tensor may show, relative to its
// largest element: 1e-3 for sums in another order, and 32 times the relative error of a rounded
// factor, which the errors of many products, some layers and steps stay below.
constexpr double ToleranceOf(Precision precision) {
  constexpr double kOrderOfSums = 1e-3;
  switch (precision) {
    case Precision::kFloat32:
      return kOrderOfSums;
    case Precision::kTf32:
    case Precision::kFloat16:
      return kOrderOfSums + 32.0 / (1 << 11);
    case Precision::kBfloat16:
      return kOrderOfSums + 32.0 / (1 << 8);
  }
  return kOrderOfSums;
}

}  // namespace partita
