#include "graph/training/training_graph.h"

#include "absl/strings/str_cat.h"
#include "graph/graph_copy.h"
#include "graph/layers.h"
#include "graph/support/status_macros.h"
#include "graph/training/differentiation.h"

namespace partita {
namespace {

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
  RETURN_IF_ERROR(CheckIsForwardModel(model));
  const bool entropy = options.loss == TrainingOptions::kCrossEntropy;
  const TensorId logits = entropy ? LogitsBeforeSoftmax(model) : model.logits();
  ASSIGN_OR_RETURN(const Graph live, WithoutDeadOperators(model, logits));
  GraphBuilder builder(live);
  ASSIGN_OR_RETURN(const TensorId loss, entropy ? AddCrossEntropyLoss(builder, live.logits())
                                                : AddSumOfSquares(builder, live.logits()));
  ASSIGN_OR_RETURN(
      const TensorId seed,
      builder.AddSeed(absl::StrCat("d:", builder.tensor(loss).name), builder.tensor(loss).type));
  Differentiation gradients(builder);
  RETURN_IF_ERROR(gradients.AddGradients(loss, seed));
  for (const Weight& weight : live.weights()) {
    const TensorId gradient = gradients.FindGradient(weight.tensor);
    if (!weight.trainable || gradient == kNoTensor) continue;
    RETURN_IF_ERROR(AddUpdate(builder, weight.tensor, gradient, options.optimizer));
  }
  return std::move(builder).Build();
}

}  // namespace partita
