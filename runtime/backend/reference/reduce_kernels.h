#pragma once

#include "absl/status/status.h"
#include "graph/ops/reduce_mean.h"
#include "graph/task/kernel_signature.h"
#include "runtime/backend/kernel_arguments.h"

namespace partita {

// Inputs and outputs are those of the pass; see the operator in graph/ops.
template <class A>
absl::Status RunKernel(const ReduceMean& attrs, A arithmetic, const KernelSignature& signature,
                       const KernelArguments& arguments);

}  // namespace partita
