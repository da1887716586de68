// Trains a plan on one fixed batch, a step for each line that it reads, so that another program can
// take turns with it: prints {"ms": wall time, "loss": loss} after each.
//
//   step_bench PLAN MODEL WEIGHTS.safetensors BATCH.safetensors LEARNING_RATE MOMENTUM
//
// The batch file has x [batch, ...] float32 and y [batch] int64.
#include <iostream>
#include <string>

#include "absl/strings/str_format.h"
#include "graph/support/status_macros.h"
#include "graph/task/planned_step.h"
#include "runtime/backend/backends.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/data/safetensors.h"
#include "runtime/train/executor_setup.h"
#include "runtime/train/training_state.h"
#include "tools/workflow/priced_machine.h"
#include "tools/workflow/training_model.h"

namespace partita {
namespace {

struct Arguments {
  std::string plan, model, weights, batch;
  StepArguments step;
};

absl::Status TakeTurns(Executor& executor, const SafetensorsFile& batch, size_t loss_output,
                       StepArguments step) {
  ASSIGN_OR_RETURN(const std::span<const float> x, batch.View<float>("x"));
  ASSIGN_OR_RETURN(const std::vector<int64_t> wide, batch.Integers("y"));
  const std::vector<int32_t> y(wide.begin(), wide.end());
  std::string line;
  while (std::getline(std::cin, line)) {
    ASSIGN_OR_RETURN(const StepResult result,
                     executor.Step({DType::kFloat32, x.data()}, {DType::kInt32, y.data()}, step));
    ++step.step;
    std::cout << absl::StrFormat("{\"ms\": %.3f, \"loss\": %.9g}\n",
                                 static_cast<double>(result.wall_ns) / 1e6,
                                 result.outputs[loss_output])
              << std::flush;
  }
  return absl::OkStatus();
}

absl::Status Run(const Arguments& arguments) {
  ASSIGN_OR_RETURN(const LoadedPlan loaded, LoadPlan(arguments.plan, arguments.model));
  const Graph& graph = loaded.model.graph;
  ExecutorSetup setup;
  ASSIGN_OR_RETURN(setup.devices, DevicesOf(loaded.plan.topology));
  setup.communicator = CommunicatorBetween(setup.devices);
  ASSIGN_OR_RETURN(PlannedStep step, BuildPlannedStep(graph, loaded.plan));
  const std::optional<size_t> loss = OutputIndex(step.tasks, graph.loss());
  if (!loss.has_value()) return absl::InvalidArgumentError("the plan's step has no loss");
  ASSIGN_OR_RETURN(const auto executor, OpenExecutor(graph, std::move(step), setup));
  ASSIGN_OR_RETURN(TrainingState state, InitialState(graph, 0));
  RETURN_IF_ERROR(LoadWeights(arguments.weights, graph, state));
  RETURN_IF_ERROR(WriteValues(graph, state, *executor));
  ASSIGN_OR_RETURN(const SafetensorsFile batch, SafetensorsFile::Open(arguments.batch));
  return TakeTurns(*executor, batch, *loss, arguments.step);
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) {
  if (argc != 7) {
    std::cerr << "usage: step_bench PLAN MODEL WEIGHTS BATCH LEARNING_RATE MOMENTUM\n";
    return 2;
  }
  partita::Arguments arguments{argv[1], argv[2], argv[3], argv[4], {}};
  arguments.step.learning_rate = std::stod(argv[5]);
  arguments.step.momentum = std::stod(argv[6]);
  const absl::Status status = partita::Run(arguments);
  if (!status.ok()) std::cerr << "step_bench: " << status.message() << "\n";
  return status.ok() ? 0 : 1;
}
