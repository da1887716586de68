#include "graph/training/evaluation_graph.h"

#include <variant>

#include "graph/graph_copy.h"
#include "graph/layers.h"
#include "graph/support/status_macros.h"

// One overload of CopyForEvaluation for each row of the operator table that behaves differently in
// training; any other operator is copied. What is then no longer read is left out at the end.

namespace partita {
namespace {

absl::Status CopyForEvaluation(const Dropout&, const Graph&, const Operator& op, GraphCopy& copy) {
  copy.Replace(op.outputs[0], copy.Map(op.inputs[0]));
  return absl::OkStatus();
}

// The weight that an update of row `Running` makes from the sums `s1`; kNoTensor if none does.
template <class Running>
TensorId StatisticsFrom(const Graph& model, TensorId s1) {
  for (OpId id : model.consumers(s1)) {
    const Operator& op = model.op(id);
    if (std::holds_alternative<Running>(op.attrs) && op.anchor_weight != kNoTensor) {
      return op.anchor_weight;
    }
  }
  return kNoTensor;
}

absl::Status CopyForEvaluation(const BatchNormalize& norm, const Graph& model, const Operator& op,
                               GraphCopy& copy) {
  const TensorId mean = StatisticsFrom<RunningMean>(model, op.inputs[1]);
  const TensorId variance = StatisticsFrom<RunningVariance>(model, op.inputs[1]);
  if (mean == kNoTensor || variance == kNoTensor) return copy.CopyOp(op);
  ASSIGN_OR_RETURN(
      const TensorId y,
      copy.builder().Add({.name = op.name,
                          .attrs = AffineNormalize{.epsilon = norm.epsilon},
                          .inputs = {copy.Map(op.inputs[0]), copy.Map(mean), copy.Map(variance),
                                     copy.Map(op.inputs[3]), copy.Map(op.inputs[4])}}));
  copy.Replace(op.outputs[0], y);
  return absl::OkStatus();
}

absl::Status CopyInto(const Graph& model, const Operator& op, GraphCopy& copy) {
  return std::visit(
      [&](const auto& row) {
        if constexpr (requires { CopyForEvaluation(row, model, op, copy); }) {
          return CopyForEvaluation(row, model, op, copy);
        } else {
          return copy.CopyOp(op);
        }
      },
      op.attrs);
}

}  // namespace

absl::StatusOr<Graph> BuildEvaluationGraph(const Graph& model) {
  RETURN_IF_ERROR(CheckIsForwardModel(model));
  GraphCopy copy(model);
  for (const Operator& op : model.ops()) {
    if (op.anchor_weight == kNoTensor) RETURN_IF_ERROR(CopyInto(model, op, copy));
  }
  // Pieces of a layer whose last operator was replaced anchor to themselves until they are dropped.
  copy.CopyAnchors();
  copy.builder().SetLogits(copy.Map(model.logits()));
  ASSIGN_OR_RETURN(const Graph whole, std::move(copy.builder()).Build());
  ASSIGN_OR_RETURN(const Graph live, WithoutDeadOperators(whole, LogitsBeforeSoftmax(whole)));
  GraphBuilder builder(live);
  RETURN_IF_ERROR(AddCrossEntropyLoss(builder, live.logits()).status());
  return std::move(builder).Build();
}

}  // namespace partita
