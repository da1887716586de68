#pragma once

#include "absl/status/status.h"
#include "graph/ops/layer_norm.h"
#include "graph/task/kernel_signature.h"
#include "runtime/backend/kernel_arguments.h"

namespace partita {

// Inputs and outputs are those of the pass; see graph/ops/layer_norm.h.
template <class A>
absl::Status RunKernel(const LayerNorm& attrs, A arithmetic, const KernelSignature& signature,
                       const KernelArguments& arguments);

}  // namespace partita
