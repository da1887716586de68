#pragma once

#include <variant>

#include "absl/status/status.h"
#include "graph/ops/loss.h"
#include "graph/ops/softmax.h"
#include "runtime/backend/reference/row_family.h"

namespace partita {

// The rows of graph/ops/softmax.h and graph/ops/loss.h.
using SoftmaxRow =
    std::variant<RowMax, RowSum, SumExp, SoftmaxApply, SoftmaxDot, SoftmaxGrad, LogSoftmaxApply,
                 LogSoftmaxGrad, CrossEntropy, CrossEntropyGrad, CountCorrect, SumOfSquares>;

template <class A>
absl::Status RunSoftmaxKernel(const SoftmaxRow& row, A arithmetic, const Launch& launch);

template <class Row, class A>
  requires kIsRowOf<Row, SoftmaxRow>
absl::Status RunKernel(const Row& row, A arithmetic, const KernelSignature& signature,
                       const KernelArguments& arguments) {
  return RunSoftmaxKernel(SoftmaxRow(row), arithmetic, Launch{signature, arguments});
}

}  // namespace partita
