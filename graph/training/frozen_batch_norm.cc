#include "graph/training/frozen_batch_norm.h"

#include <variant>

#include "graph/graph_copy.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

// The weight that an update of row `Running` makes from the sums `s1`; kNoTensor if none does.
template <class Running>
TensorId StatisticsFrom(const Graph& model, TensorId s1) {
  for (OpId id : model.consumers(s1)) {
    if (std::holds_alternative<Running>(model.op(id).attrs)) return model.op(id).inputs[0];
  }
  return kNoTensor;
}

absl::Status CopyFrozen(const Graph& model, const Operator& op, GraphCopy& copy) {
  const auto* norm = std::get_if<BatchNormalize>(&op.attrs);
  if (norm == nullptr) return copy.CopyOp(op);
  const TensorId mean = StatisticsFrom<RunningMean>(model, op.inputs[1]);
  const TensorId variance = StatisticsFrom<RunningVariance>(model, op.inputs[1]);
  if (mean == kNoTensor || variance == kNoTensor) return copy.CopyOp(op);
  ASSIGN_OR_RETURN(
      const TensorId y,
      copy.builder().Add({.name = op.name,
                          .attrs = AffineNormalize{.epsilon = norm->epsilon},
                          .inputs = {copy.Map(op.inputs[0]), copy.Map(mean), copy.Map(variance),
                                     copy.Map(op.inputs[3]), copy.Map(op.inputs[4])}}));
  copy.Replace(op.outputs[0], y);
  return absl::OkStatus();
}

bool UpdatesStatistics(const Operator& op) {
  return std::holds_alternative<RunningMean>(op.attrs) ||
         std::holds_alternative<RunningVariance>(op.attrs);
}

}  // namespace

absl::StatusOr<Graph> WithFrozenBatchNorm(const Graph& model) {
  if (model.is_training() || model.logits() == kNoTensor) {
    return absl::InvalidArgumentError("only a forward graph's batch normalisation can be frozen");
  }
  GraphCopy copy(model);
  for (const Operator& op : model.ops()) {
    if (!UpdatesStatistics(op)) RETURN_IF_ERROR(CopyFrozen(model, op, copy));
  }
  copy.CopyAnchors();
  const TensorId logits = copy.Map(model.logits());
  copy.builder().SetLogits(logits);
  ASSIGN_OR_RETURN(const Graph whole, std::move(copy.builder()).Build());
  return WithoutDeadOperators(whole, whole.logits());
}

}  // namespace partita
