#pragma once

#include "absl/status/status.h"
#include "graph/ops/conv2d.h"
#include "graph/task/kernel_signature.h"
#include "runtime/backend/kernel_arguments.h"

namespace partita {

// Inputs and outputs are those of the pass; see graph/ops/conv2d.h.
template <class A>
absl::Status RunKernel(const Conv2d& conv, A arithmetic, const KernelSignature& signature,
                       const KernelArguments& arguments);

}  // namespace partita
