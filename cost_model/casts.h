#pragma once

#include <cstdint>

#include "graph/precision.h"
#include "graph/task/kernel_signature.h"

namespace partita {

// Work of conversions that a kernel adds because its factors are of 16 bits and its operands of 32:
// each factor is written to scratch memory, and so is the result of a convolution, which the
// library writes in 16 bits; of float16, each factor's largest element is found before.
struct Casts {
  int64_t bytes = 0;    // traffic to and from memory, beyond that of a kernel in float32
  int64_t kernels = 0;  // kernels that are launched for it
  int64_t scratch_bytes = 0;

  friend bool operator==(const Casts&, const Casts&) = default;
};
// Casts of a kernel; none for kernels without products, in float32 and in TF32, to which the
// hardware rounds as it reads.
Casts CastsOf(const KernelSignature& signature);

}  // namespace partita
