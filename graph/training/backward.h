#pragma once

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "graph/training/differentiation.h"

namespace partita {

// Gradient of a layer that is decomposed into several operators, where it is not the derivative of
// each piece: `add` appends the operators for the last piece, `op`, and the other pieces have none.
// It covers these operands of `op`.
struct ExplicitBackward {
  std::vector<int> operands;
  absl::Status (*add)(Differentiation& gradients, const Operator& op);
};

// nullopt: every differentiable operand has the derived gradient of its operator.
std::optional<ExplicitBackward> ExplicitBackwardOf(const OpAttrs& attrs);

}  // namespace partita
