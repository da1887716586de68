#pragma once

#include <variant>

#include "absl/status/status.h"
#include "graph/ops/batch_norm.h"
#include "runtime/backend/reference/row_family.h"

namespace partita {

// The rows of graph/ops/batch_norm.h.
using NormRow = std::variant<BatchMoments, BatchNormalize, BatchNormGradMoments, BatchNormGradApply,
                             AffineNormalize>;

template <class A>
absl::Status RunNormKernel(const NormRow& row, A arithmetic, const Launch& launch);

template <class Row, class A>
  requires kIsRowOf<Row, NormRow>
absl::Status RunKernel(const Row& row, A arithmetic, const KernelSignature& signature,
                       const KernelArguments& arguments) {
  return RunNormKernel(NormRow(row), arithmetic, Launch{signature, arguments});
}

}  // namespace partita
