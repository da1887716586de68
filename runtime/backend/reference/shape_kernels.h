#pragma once

#include "absl/status/status.h"
#include "graph/ops/reshape.h"
#include "graph/ops/shape_ops.h"
#include "graph/task/kernel_signature.h"
#include "runtime/backend/kernel_arguments.h"

namespace partita {

// Inputs and outputs are those of the pass; see the operator in graph/ops.
template <class A>
absl::Status RunKernel(const Reshape& attrs, A arithmetic, const KernelSignature& signature,
                       const KernelArguments& arguments);
template <class A>
absl::Status RunKernel(const Transpose& attrs, A arithmetic, const KernelSignature& signature,
                       const KernelArguments& arguments);
template <class A>
absl::Status RunKernel(const Concat& attrs, A arithmetic, const KernelSignature& signature,
                       const KernelArguments& arguments);
template <class A>
absl::Status RunKernel(const Crop& attrs, A arithmetic, const KernelSignature& signature,
                       const KernelArguments& arguments);
template <class A>
absl::Status RunKernel(const Pad& attrs, A arithmetic, const KernelSignature& signature,
                       const KernelArguments& arguments);

}  // namespace partita
