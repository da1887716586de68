// Trains a plan on one fixed batch, a step for each line that it reads, see step_turns.h.
//
//   step_bench PLAN MODEL WEIGHTS.safetensors BATCH.safetensors LEARNING_RATE MOMENTUM
#include <iostream>
#include <string>

#include "graph/partition/planned_step.h"
#include "graph/support/status_macros.h"
#include "runtime/executor/executor_setup.h"
#include "tests/bench/step_turns.h"
#include "tools/workflow/training_model.h"

namespace partita {
namespace {

struct Arguments {
  std::string plan, model;
  StepTurns turns;
};

absl::Status Run(const Arguments& arguments) {
  ASSIGN_OR_RETURN(const LoadedPlan loaded, LoadPlan({arguments.plan, arguments.model}));
  const Graph& graph = loaded.model.graph;
  ExecutorSetup setup;
  ASSIGN_OR_RETURN(setup.devices, DevicesOf(loaded.plan.topology));
  setup.communicator = CommunicatorBetween(setup.devices);
  ASSIGN_OR_RETURN(PlannedStep step, BuildPlannedStep(graph, loaded.plan));
  ASSIGN_OR_RETURN(const auto executor, OpenExecutor(graph, std::move(step), setup));
  return TakeTurns(graph, *executor, arguments.turns, std::cin, std::cout);
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) {
  if (argc != 7) {
    std::cerr << "usage: step_bench PLAN MODEL WEIGHTS BATCH LEARNING_RATE MOMENTUM\n";
    return 2;
  }
  partita::Arguments arguments{argv[1], argv[2], {argv[3], argv[4], {}}};
  arguments.turns.step.learning_rate = std::stod(argv[5]);
  arguments.turns.step.momentum = std::stod(argv[6]);
  const absl::Status status = partita::Run(arguments);
  if (!status.ok()) std::cerr << "step_bench: " << status.message() << "\n";
  return status.ok() ? 0 : 1;
}
