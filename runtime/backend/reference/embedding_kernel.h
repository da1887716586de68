#pragma once

#include "absl/status/status.h"
#include "graph/ops/embedding.h"
#include "graph/task/kernel_signature.h"
#include "runtime/backend/kernel_arguments.h"

namespace partita {

// Inputs and outputs are those of the pass; see graph/ops/embedding.h.
template <class A>
absl::Status RunKernel(const Embedding& attrs, A arithmetic, const KernelSignature& signature,
                       const KernelArguments& arguments);

}  // namespace partita
