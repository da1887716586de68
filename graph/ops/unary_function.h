#pragma once

#include <cstdint>

namespace partita {

// Function of one number that the operator `unary` applies; see graph/ops/unary.h. Kernels for GPUs
// include this header: it knows nothing newer than C++17.
enum class UnaryFunction : uint8_t { kErf, kGelu, kGeluTanh, kHardSwish, kSigmoid, kTanh };

}  // namespace partita
