#include "runtime/serial/serial_reference.h"

#include "graph/support/status_macros.h"
#include "runtime/serial/serial_trainer.h"
#include "runtime/train/reference/reference_run.h"

namespace partita {

absl::StatusOr<RunValues> TrainSeriallyOnReference(const Graph& model,
                                                   const ReferenceFolder& reference,
                                                   const std::atomic<bool>* stop) {
  ASSIGN_OR_RETURN(const Graph graph, BuildReferenceGraph(model, reference));
  SerialTrainer trainer(graph);
  trainer.StopWhen(stop);
  return TrainOnReference(
      graph, reference,
      {.step = [&](auto x, auto labels,
                   const StepArguments& arguments) { return trainer.Step(x, labels, arguments); },
       .value = [&](TensorId id) { return trainer.Get(id); }});
}

}  // namespace partita
