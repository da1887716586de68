#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cost_model/default_cost_model.h"
#include "cost_model/machines.h"
#include "graph/parallel/plan.h"
#include "graph/support/check.h"
#include "graph/training/training_graph.h"
#include "graph/zoo/models.h"
#include "planner/evaluator.h"
#include "planner/expert/expert_strategies.h"
#include "planner/search/search_algorithm.h"
#include "tests/testing/ok.h"

namespace partita {

inline Graph TrainingGraphOf(const std::string& model, int64_t batch) {
  return Ok(BuildTrainingGraph(Ok(MakeZooModel(model, batch)), {}));
}

// A model on a named machine with the synthetic profile: all that a search needs.
struct Workplace {
  Workplace(const std::string& model, int64_t batch, const std::string& machine_name, int devices,
            Evaluator::Options options = {})
      : Workplace(TrainingGraphOf(model, batch), machine_name, devices, std::move(options)) {}
  Workplace(Graph training, const std::string& machine_name, int devices,
            Evaluator::Options options = {})
      : graph(std::move(training)),
        machine(std::make_shared<const Machine>(Ok(FindMachine(machine_name, devices)))),
        costs(MakeSyntheticCostModel(machine)),
        evaluator(graph, machine->topology, *costs, std::move(options)),
        space(graph, devices) {}
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  SearchProblem Problem() const {
    return {evaluator, space, ExpertStarts(graph, machine->topology)};
  }
  // The same where only these may change.
  SearchProblem Problem(std::vector<DecisionSubject> subjects) const {
    return {evaluator, SearchSpace(graph, machine->topology.size(), std::move(subjects)),
            ExpertStarts(graph, machine->topology)};
  }
  Strategy Expert(const std::string& name) const {
    return Ok(Ok(ExpertNamed(name))(graph, machine->topology));
  }
  OpId Op(const std::string& name) const {
    for (const Operator& op : graph.ops()) {
      if (op.name == name) return op.id;
    }
    CHECK(false) << "no operator " << name;
    return kNoOp;
  }
  Plan PlanOf(const Strategy& strategy) const {
    return {.model = {.source = graph.name(),
                      .batch = graph.batch(),
                      .fingerprint = graph.fingerprint()},
            .topology = machine->topology,
            .strategy = strategy};
  }

  const Graph graph;
  const std::shared_ptr<const Machine> machine;
  const std::unique_ptr<CostModel> costs;
  const Evaluator evaluator;
  const SearchSpace space;
};

}  // namespace partita
