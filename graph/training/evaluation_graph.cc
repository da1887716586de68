#include "graph/training/evaluation_graph.h"

#include "graph/graph_copy.h"
#include "graph/layers.h"
#include "graph/support/status_macros.h"
#include "graph/training/kept_statistics.h"

// Operators that behave differently in training are replaced, any other is copied. What is then no
// longer read is left out at the end.

namespace partita {
namespace {

absl::Status CopyInto(const Graph& model, const Operator& op, GraphCopy& copy) {
  if (IsIdentityInEvaluation(op.attrs)) {
    copy.Replace(op.outputs[0], copy.Map(op.inputs[0]));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const bool copied, CopyInFixedForm(model, op, copy));
  return copied ? absl::OkStatus() : copy.CopyOp(op);
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
  copy.CopyLogits();
  ASSIGN_OR_RETURN(const Graph whole, std::move(copy.builder()).Build());
  ASSIGN_OR_RETURN(const Graph live, WithoutDeadOperators(whole, LogitsBeforeSoftmax(whole)));
  GraphBuilder builder(live);
  RETURN_IF_ERROR(
      AddCrossEntropyTerm(builder, {.logits = live.only(TensorRole::kLogits)}).status());
  return std::move(builder).Build();
}

}  // namespace partita
