#pragma once

#include <vector>

#include "absl/status/status.h"
#include "graph/training/differentiation.h"

namespace partita {

// Gradient of a layer that is decomposed into several operators, where it is not the derivative of
// each piece (GradientPiecesOf): it belongs to the last piece, and the others have none.

// Operands that these pieces have gradients of.
std::vector<int> OperandsOf(const std::vector<GradientPiece<OpAttrs>>& pieces);

// Appends the operators for the last piece of a layer, `op`.
absl::Status AddBackwardPieces(Differentiation& gradients, const Operator& op);

}  // namespace partita
