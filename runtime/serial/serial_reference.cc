#include "runtime/serial/serial_reference.h"

#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"
#include "graph/training_graph.h"
#include "runtime/serial/serial_trainer.h"

namespace partita {
namespace {

void RecordFirstStep(const SerialTrainer& trainer, RunValues& values) {
  const Graph& graph = trainer.graph();
  values["logits"] = trainer.Get(graph.logits());
  for (const Weight& weight : graph.weights()) {
    const std::string& name = graph.tensor(weight.tensor).name;
    const auto gradient = trainer.Find(absl::StrCat("d:", name));
    if (gradient.ok()) values[absl::StrCat("grad/", name)] = trainer.Get(*gradient);
  }
}

}  // namespace

absl::StatusOr<RunValues> TrainSeriallyOnReference(const Graph& model,
                                                   const ReferenceFolder& reference) {
  const Shape input = model.tensor(model.input()).type.shape;
  if (input != Shape(reference.batch_shape.begin(), reference.batch_shape.end())) {
    return absl::InvalidArgumentError(
        absl::StrCat(reference.path, ": the model's input is ", ToString(input), ", a batch is ",
                     ToString(Shape(reference.batch_shape.begin(), reference.batch_shape.end()))));
  }
  const TrainingOptions options{.optimizer = reference.nesterov ? TrainingOptions::kNesterov
                                                                : TrainingOptions::kSgd};
  ASSIGN_OR_RETURN(const Graph graph, BuildTrainingGraph(model, options));
  SerialTrainer trainer(graph);
  RunValues values;
  StepArguments arguments;
  arguments.learning_rate = reference.learning_rate;
  arguments.momentum = reference.momentum;
  arguments.weight_decay = reference.weight_decay;
  for (arguments.step = 0; arguments.step < reference.steps(); ++arguments.step) {
    const auto step = static_cast<size_t>(arguments.step);
    ASSIGN_OR_RETURN(const double loss,
                     trainer.Step(reference.x[step], reference.labels[step], arguments));
    values["loss"].push_back(loss);
    if (step == 0) RecordFirstStep(trainer, values);
  }
  for (const Weight& weight : graph.weights()) {
    const std::string& name = graph.tensor(weight.tensor).name;
    values[absl::StrCat(weight.trainable ? "final/" : "final_buffer/", name)] =
        trainer.Get(weight.tensor);
  }
  return values;
}

}  // namespace partita
