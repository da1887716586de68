#pragma once

#include <variant>

#include "absl/status/status.h"
#include "graph/ops/update.h"
#include "runtime/backend/reference/row_family.h"

namespace partita {

// The rows of graph/ops/update.h.
using UpdateRow = std::variant<Sgd, Adam, RunningMean, RunningVariance>;

template <class A>
absl::Status RunUpdateKernel(const UpdateRow& row, A arithmetic, const Launch& launch);

template <class Row, class A>
  requires kIsRowOf<Row, UpdateRow>
absl::Status RunKernel(const Row& row, A arithmetic, const KernelSignature& signature,
                       const KernelArguments& arguments) {
  return RunUpdateKernel(UpdateRow(row), arithmetic, Launch{signature, arguments});
}

}  // namespace partita
