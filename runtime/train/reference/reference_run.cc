#include "runtime/train/reference/reference_run.h"

#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

// The gradient of a weight, or kNoTensor.
TensorId GradientOf(const Graph& graph, const Tensor& weight) {
  const std::string name = absl::StrCat("d:", weight.name);
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.name == name) return tensor.id;
  }
  return kNoTensor;
}

absl::Status Record(const std::string& name, TensorId id, const Trainee& trainee,
                    RunValues& values) {
  auto value = trainee.value(id);
  if (absl::IsNotFound(value.status())) return absl::OkStatus();
  if (!value.ok()) return value.status();
  values[name] = *std::move(value);
  return absl::OkStatus();
}

absl::Status RecordFirstStep(const Graph& graph, const Trainee& trainee, RunValues& values) {
  RETURN_IF_ERROR(Record("logits", graph.only(TensorRole::kLogits), trainee, values));
  for (const Weight& weight : graph.weights()) {
    const Tensor& tensor = graph.tensor(weight.tensor);
    const TensorId gradient = GradientOf(graph, tensor);
    if (gradient == kNoTensor) continue;
    RETURN_IF_ERROR(Record(absl::StrCat("grad/", tensor.name), gradient, trainee, values));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Graph> BuildReferenceGraph(const Graph& model, const ReferenceFolder& reference) {
  const Shape input = model.WholeType(TensorRole::kSamples).shape;
  const Shape batch(reference.batch_shape.begin(), reference.batch_shape.end());
  if (input != batch) {
    return absl::InvalidArgumentError(absl::StrCat(reference.path, ": the model's input is ",
                                                   ToString(input), ", a batch is ",
                                                   ToString(batch)));
  }
  return BuildTrainingGraph(model, {.optimizer = reference.nesterov ? TrainingOptions::kNesterov
                                                                    : TrainingOptions::kSgd});
}

absl::StatusOr<RunValues> TrainOnReference(const Graph& graph, const ReferenceFolder& reference,
                                           const Trainee& trainee) {
  RunValues values;
  StepArguments arguments;
  arguments.learning_rate = reference.learning_rate;
  arguments.momentum = reference.momentum;
  arguments.weight_decay = reference.weight_decay;
  for (arguments.step = 0; arguments.step < reference.steps(); ++arguments.step) {
    const auto step = static_cast<size_t>(arguments.step);
    ASSIGN_OR_RETURN(const double loss,
                     trainee.step(reference.x[step], reference.labels[step], arguments));
    values["loss"].push_back(loss);
    if (step == 0) RETURN_IF_ERROR(RecordFirstStep(graph, trainee, values));
  }
  for (const Weight& weight : graph.weights()) {
    const std::string& name = graph.tensor(weight.tensor).name;
    RETURN_IF_ERROR(Record(absl::StrCat(weight.trainable ? "final/" : "final_buffer/", name),
                           weight.tensor, trainee, values));
  }
  return values;
}

}  // namespace partita
