// Plans the training of a model on a machine: plan_from_cpp [MODEL [MACHINE [PLAN FILE]]].
#include <iostream>
#include <memory>
#include <string>

#include "cost_model/default_cost_model.h"
#include "cost_model/machines.h"
#include "graph/model/model_source.h"
#include "graph/parallel/plan_io.h"
#include "graph/support/status_macros.h"
#include "graph/training/training_graph.h"
#include "planner/planner.h"

namespace {

absl::Status MakePlanFile(const std::string& model, const std::string& machine,
                          const std::string& path) {
  ASSIGN_OR_RETURN(const partita::ImportedModel forward, partita::LoadModel(model, {.batch = 64}));
  ASSIGN_OR_RETURN(const partita::Graph graph, partita::BuildTrainingGraph(forward.graph, {}));
  ASSIGN_OR_RETURN(partita::Machine found, partita::FindMachine(machine, /*devices=*/4));
  const auto shared = std::make_shared<const partita::Machine>(std::move(found));
  const auto prices = partita::MakeDefaultCostModel(shared);
  const partita::Evaluator evaluator(graph, shared->topology, *prices);
  ASSIGN_OR_RETURN(partita::PlanOutcome outcome,
                   partita::MakePlan(evaluator, {.options = {.evaluations = 500}}));
  outcome.plan.model = {
      .source = model, .batch = graph.batch(), .fingerprint = graph.fingerprint()};
  outcome.plan.provenance.machine = machine;
  const auto ms = [](partita::Nanos time) { return static_cast<double>(time.value()) / 1e6; };
  std::cout << "a step of " << model << " takes " << ms(outcome.step.evaluation.time)
            << " ms on 4 devices of " << machine << "\n";
  if (outcome.baseline.has_value()) {
    std::cout << "as data parallelism: " << ms(*outcome.baseline) << " ms\n";
  }
  return partita::WritePlanFile(outcome.plan, graph, path);
}

}  // namespace

int main(int argc, char** argv) {
  const absl::Status status =
      MakePlanFile(argc > 1 ? argv[1] : "alexnet", argc > 2 ? argv[2] : "p100-4x4",
                   argc > 3 ? argv[3] : "model.plan.textproto");
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
