#pragma once

#include "absl/status/status.h"
#include "graph/ops/lrn.h"
#include "graph/task/kernel_signature.h"
#include "runtime/backend/kernel_arguments.h"

namespace partita {

// Inputs and outputs are those of the pass; see graph/ops/lrn.h.
template <class A>
absl::Status RunKernel(const Lrn& lrn, A arithmetic, const KernelSignature& signature,
                       const KernelArguments& arguments);

}  // namespace partita
