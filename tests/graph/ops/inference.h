#pragma once

#include <string>
#include <vector>

#include "graph/ops/ops.h"

namespace partita {

inline TensorType Floats(const Shape& shape) { return {DType::kFloat32, shape}; }

// Message of the error with which the operator refuses these operands.
inline std::string InferenceError(const OpAttrs& attrs, const std::vector<TensorType>& operands) {
  return std::string(InferResults(attrs, operands).status().message());
}

}  // namespace partita
