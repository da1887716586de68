#pragma once

#include <cstdint>
#include <vector>

#include "graph/ops/fields.h"
#include "graph/ops/tensor_form.h"

namespace partita {

// x * clamp(x + 3, 0, 6) / 6 (Howard et al., "Searching for MobileNetV3", ICCV 2019). The gradient
// is 0 for x <= -3, 1 for x >= 3 and (2 x + 3) / 6 between, as PyTorch's. NaN stays NaN, and minus
// infinity, times 0, becomes it.
struct HardSwish {
  static constexpr char kName[] = "hard_swish";
  static constexpr char kDescription[] = "x * clamp(x + 3, 0, 6) / 6, element by element";
  static constexpr bool kKeepsNotFinite = true;
  static constexpr bool kOneFormat = true;
  static constexpr char kForm[] = "x*->x";
  static constexpr int64_t kOperations = 5;
  template <class Self, class Visitor>
  static void VisitFields(Self&, Visitor&&) {}
  friend bool operator==(const HardSwish&, const HardSwish&) = default;
};
GradientReads ReadsForGradient(const HardSwish&, int operand);
std::vector<InPlacePair> InPlace(const HardSwish&, Pass pass);

static_assert(OperatorAttrs<HardSwish>);

}  // namespace partita
