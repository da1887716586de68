#pragma once

#include "absl/status/status.h"
#include "graph/ops/elementwise.h"
#include "graph/task/kernel_signature.h"
#include "runtime/backend/kernel_arguments.h"

namespace partita {

// Inputs and outputs are those of the pass; see graph/ops/elementwise.h.
template <class A>
absl::Status RunKernel(const Relu& relu, A arithmetic, const KernelSignature& signature,
                       const KernelArguments& arguments);
template <class A>
absl::Status RunKernel(const Binary& binary, A arithmetic, const KernelSignature& signature,
                       const KernelArguments& arguments);

}  // namespace partita
