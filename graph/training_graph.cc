#include "graph/training_graph.h"

#include <variant>

#include "absl/strings/str_cat.h"
#include "graph/differentiation.h"
#include "graph/layers.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

// The tensor that the loss takes.
TensorId LogitsOf(const Graph& model) {
  for (OpId id : model.producers(model.logits())) {
    const Operator& op = model.op(id);
    if (std::holds_alternative<SoftmaxApply>(op.attrs) ||
        std::holds_alternative<LogSoftmaxApply>(op.attrs)) {
      return op.inputs[0];
    }
  }
  return model.logits();
}

absl::StatusOr<TensorId> AddCrossEntropy(GraphBuilder& builder, TensorId logits) {
  const Shape shape = builder.tensor(logits).type.shape;
  if (shape.size() < 2) {
    return absl::InvalidArgumentError(absl::StrCat("the loss wants logits [rows..., classes]; '",
                                                   builder.tensor(logits).name, "' is ",
                                                   ToString(shape)));
  }
  const Shape rows(shape.begin(), shape.end() - 1);
  ASSIGN_OR_RETURN(const TensorId labels, builder.AddLabels("labels", rows));
  ASSIGN_OR_RETURN(const SoftmaxStatistics softmax, AddSoftmaxStatistics(builder, "loss", logits));
  ASSIGN_OR_RETURN(const OpId loss,
                   builder.AddOp({.name = "loss",
                                  .attrs = CrossEntropy{CrossEntropyFields{.rows = Volume(rows)}},
                                  .inputs = {logits, labels, softmax.max, softmax.sum}}));
  builder.SetAnchor(softmax.max_op, loss);
  builder.SetAnchor(softmax.sum_op, loss);
  ASSIGN_OR_RETURN(const TensorId correct, builder.Add({.name = "loss.correct",
                                                        .attrs = CountCorrect{},
                                                        .inputs = {logits, labels, softmax.max},
                                                        .anchor = loss}));
  builder.SetLoss(builder.op(loss).outputs[0], correct);
  return builder.op(loss).outputs[0];
}

absl::StatusOr<TensorId> AddSumOfSquares(GraphBuilder& builder, TensorId logits) {
  ASSIGN_OR_RETURN(const TensorId loss,
                   builder.Add({.name = "loss", .attrs = SumOfSquares{}, .inputs = {logits}}));
  builder.SetLoss(loss, kNoTensor);
  return loss;
}

absl::Status AddUpdate(GraphBuilder& builder, TensorId weight, TensorId gradient,
                       TrainingOptions::Optimizer optimizer) {
  const std::string name = builder.tensor(weight).name;
  const std::string update = absl::StrCat(name, ".update");
  if (optimizer == TrainingOptions::kAdam) {
    ASSIGN_OR_RETURN(const TensorId m, builder.AddState(absl::StrCat(name, ".moment1"), weight));
    ASSIGN_OR_RETURN(const TensorId v, builder.AddState(absl::StrCat(name, ".moment2"), weight));
    return builder.AddUpdate(update, Adam{}, {weight, gradient, m, v}, {weight, m, v}).status();
  }
  ASSIGN_OR_RETURN(const TensorId v, builder.AddState(absl::StrCat(name, ".momentum"), weight));
  const Sgd sgd{.nesterov = optimizer == TrainingOptions::kNesterov};
  return builder.AddUpdate(update, sgd, {weight, gradient, v}, {weight, v}).status();
}

}  // namespace

absl::StatusOr<TrainingOptions::Optimizer> OptimizerNamed(absl::string_view name) {
  for (auto optimizer :
       {TrainingOptions::kSgd, TrainingOptions::kNesterov, TrainingOptions::kAdam}) {
    if (name == Name(optimizer)) return optimizer;
  }
  return absl::NotFoundError(
      absl::StrCat("unknown optimizer '", name, "'; known are: sgd, nesterov, adam"));
}

absl::StatusOr<Graph> BuildTrainingGraph(const Graph& model, const TrainingOptions& options) {
  if (model.is_training() || model.input() == kNoTensor || model.logits() == kNoTensor) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", model.name(), "' should be a forward graph with an input, logits and no loss yet"));
  }
  GraphBuilder builder(model);
  const TensorId logits = LogitsOf(model);
  ASSIGN_OR_RETURN(const TensorId loss, options.loss == TrainingOptions::kCrossEntropy
                                            ? AddCrossEntropy(builder, logits)
                                            : AddSumOfSquares(builder, logits));
  ASSIGN_OR_RETURN(const TensorId seed, builder.AddSeed("d:loss", builder.tensor(loss).type));
  Differentiation gradients(builder);
  RETURN_IF_ERROR(gradients.AddGradients(loss, seed));
  for (const Weight& weight : model.weights()) {
    const TensorId gradient = gradients.FindGradient(weight.tensor);
    if (!weight.trainable || gradient == kNoTensor) continue;
    RETURN_IF_ERROR(AddUpdate(builder, weight.tensor, gradient, options.optimizer));
  }
  return std::move(builder).Build();
}

}  // namespace partita
