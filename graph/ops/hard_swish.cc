#include "graph/ops/hard_swish.h"

namespace partita {

GradientReads ReadsForGradient(const HardSwish&, int) { return {.operands = {0}}; }

std::vector<InPlacePair> InPlace(const HardSwish&, Pass pass) {
  // The gradient reads x and dy and may take either's buffer.
  if (pass.is_forward()) return {{0, 0}};
  return {{1, 0}, {0, 0}};
}

}  // namespace partita
