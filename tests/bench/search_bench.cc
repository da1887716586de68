// Time of one evaluation as a search sees it: strategies one change away from an expert's, so that
// the cost model has answered most questions before. "whole" includes memory and waits; "enough"
// stops at the time of the expert, as most proposals of a search do.
#include <benchmark/benchmark.h>

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "cost_model/default_cost_model.h"
#include "cost_model/machines.h"
#include "graph/support/check.h"
#include "graph/training/training_graph.h"
#include "graph/zoo/models.h"
#include "planner/evaluator.h"
#include "planner/expert/expert_strategies.h"
#include "tests/testing/ok.h"

namespace partita {
namespace {

void Evaluate(benchmark::State& state, const std::string& model, int devices, bool whole) {
  const Graph graph = Ok(BuildTrainingGraph(Ok(MakeZooModel(model, 256)), {}));
  const auto machine = std::make_shared<const Machine>(Ok(FindMachine("k80-16x4", devices)));
  const auto costs = MakeSyntheticCostModel(machine);
  const Evaluator evaluator(graph, machine->topology, *costs);
  const SearchSpace space(graph, devices);
  std::mt19937_64 random(1);
  const Strategy expert = Ok(OneWeirdTrick(graph, machine->topology));
  std::vector<Strategy> neighbours;
  for (int k = 0; k < 64; ++k) {
    neighbours.push_back(expert);
    const OpId op = graph.anchors()[random() % graph.anchors().size()];
    neighbours.back().configs[op.index()] = space.RandomConfig(op, random);
  }
  const Nanos enough =
      whole ? Nanos(std::numeric_limits<int64_t>::max()) : evaluator.Evaluate(expert).time;
  for (const Strategy& strategy : neighbours) evaluator.Evaluate(strategy, enough);
  size_t next = 0;
  int64_t tasks = 0;
  for (auto _ : state) tasks += evaluator.EvaluateBriefly(neighbours[next++ % 64], enough).tasks;
  state.counters["tasks"] =
      benchmark::Counter(static_cast<double>(tasks), benchmark::Counter::kAvgIterations);
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) {
  for (const char* model : {"alexnet", "resnet18"}) {
    for (int devices : {4, 16, 64}) {
      for (bool whole : {true, false}) {
        benchmark::RegisterBenchmark(
            (std::string(model) + "/" + std::to_string(devices) + (whole ? "/whole" : "/enough"))
                .c_str(),
            [=](benchmark::State& state) { partita::Evaluate(state, model, devices, whole); })
            ->Unit(benchmark::kMicrosecond)
            ->MinTime(1);
      }
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
