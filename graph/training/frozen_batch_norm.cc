#include "graph/training/frozen_batch_norm.h"

#include "graph/graph_copy.h"
#include "graph/support/status_macros.h"
#include "graph/training/kept_statistics.h"

namespace partita {
absl::StatusOr<Graph> WithFrozenBatchNorm(const Graph& model) {
  if (model.is_training() || model.tensors(TensorRole::kLogits).empty()) {
    return absl::InvalidArgumentError("only a forward graph's batch normalisation can be frozen");
  }
  GraphCopy copy(model);
  for (const Operator& op : model.ops()) {
    if (StatisticOf(op.attrs).has_value()) continue;
    ASSIGN_OR_RETURN(const bool copied, CopyInFixedForm(model, op, copy));
    if (!copied) RETURN_IF_ERROR(copy.CopyOp(op));
  }
  copy.CopyAnchors();
  copy.CopyLogits();
  ASSIGN_OR_RETURN(const Graph whole, std::move(copy.builder()).Build());
  return WithoutDeadOperators(whole, whole.tensors(TensorRole::kLogits));
}

}  // namespace partita
