#pragma once

#include "absl/status/status.h"
#include "graph/ops/batch_matmul.h"
#include "graph/task/kernel_signature.h"
#include "runtime/backend/kernel_arguments.h"

namespace partita {

// Inputs and outputs are those of the pass; see graph/ops/batch_matmul.h.
template <class A>
absl::Status RunKernel(const BatchMatMul& attrs, A arithmetic, const KernelSignature& signature,
                       const KernelArguments& arguments);

}  // namespace partita
