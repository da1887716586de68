// Time per task of simulation, and of a whole evaluation with its parts. Counters: tasks, and ns
// per task. Graphs are training steps of zoo models; "first loop" splits every operator over all
// devices along its first loop, "random" draws every configuration.
#include <benchmark/benchmark.h>

#include <memory>
#include <random>
#include <string>
#include <utility>

#include "cost_model/default_cost_model.h"
#include "cost_model/machines.h"
#include "cost_model/task_costs.h"
#include "graph/support/check.h"
#include "graph/task/planned_step.h"
#include "graph/training_graph.h"
#include "graph/zoo/models.h"
#include "planner/evaluator.h"
#include "planner/simulator/simulator.h"
#include "tests/planner/strategies.h"
#include "tests/testing/random_strategy.h"

namespace partita {
namespace {

template <class T>
T Ok(absl::StatusOr<T> value) {
  CHECK(value.ok()) << value.status();
  return *std::move(value);
}

struct Case {
  std::string name;  // model/machine/strategy
  Graph graph;
  std::shared_ptr<const Machine> machine;
  std::unique_ptr<CostModel> model;
  Strategy strategy;
  TaskGraph tasks;
  std::vector<Nanos> durations;
};

std::shared_ptr<Case> MakeCase(const std::string& model, const std::string& machine, int devices,
                               bool is_random) {
  auto c = std::make_shared<Case>();
  c->name = model + "/" + machine + "/" + std::to_string(devices) +
            (is_random ? "/random" : "/first loop");
  c->graph = Ok(BuildTrainingGraph(Ok(MakeZooModel(model, 256)), {}));
  c->machine = std::make_shared<const Machine>(Ok(FindMachine(machine, devices)));
  c->model = MakeDefaultCostModel(c->machine);
  std::mt19937_64 random(1);
  c->strategy =
      is_random ? RandomStrategy(c->graph, devices, random) : SplitFirstLoop(c->graph, devices);
  c->tasks = Ok(Partition(c->graph, c->strategy, PartitionOptionsOf(c->machine->topology, {})));
  c->durations = DurationsOf(PriceTasks(c->tasks, *c->model));
  return c;
}

void Report(benchmark::State& state, size_t tasks) {
  state.counters["tasks"] = static_cast<double>(tasks);
  state.counters["ns/task"] = benchmark::Counter(
      static_cast<double>(tasks) * 1e-9,
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

// The full simulation: arrays from the task graph, schedule, total order.
void BM_FullSimulation(benchmark::State& state, const Case& c) {
  const SimulatedResources resources(c.machine->topology);
  for (auto _ : state) {
    const FlatTasks flat = Flatten(c.tasks, resources);
    const Schedule schedule = Simulate(flat, c.durations);
    benchmark::DoNotOptimize(OrderOf(flat, schedule).data());
  }
  Report(state, c.tasks.tasks().size());
}

// The schedule alone, of arrays at hand.
void BM_Schedule(benchmark::State& state, const Case& c) {
  const FlatTasks flat = Flatten(c.tasks, SimulatedResources(c.machine->topology));
  for (auto _ : state) benchmark::DoNotOptimize(Simulate(flat, c.durations).makespan);
  Report(state, c.tasks.tasks().size());
}

void BM_Partition(benchmark::State& state, const Case& c) {
  const PartitionOptions options = PartitionOptionsOf(c.machine->topology, {});
  for (auto _ : state) {
    benchmark::DoNotOptimize(Ok(Partition(c.graph, c.strategy, options)).fingerprint());
  }
  Report(state, c.tasks.tasks().size());
}

void BM_Price(benchmark::State& state, const Case& c) {
  for (auto _ : state) benchmark::DoNotOptimize(PriceTasks(c.tasks, *c.model).data());
  Report(state, c.tasks.tasks().size());
}

void BM_AssignBuffers(benchmark::State& state, const Case& c) {
  const FlatTasks flat = Flatten(c.tasks, SimulatedResources(c.machine->topology));
  const std::vector<TaskId> order = OrderOf(flat, Simulate(flat, c.durations));
  for (auto _ : state) benchmark::DoNotOptimize(AssignBuffers(c.tasks, order, {}).offset.data());
  Report(state, c.tasks.tasks().size());
}

// All of it: what one proposal of a search costs.
void BM_Evaluate(benchmark::State& state, const Case& c) {
  Evaluator::Options options;
  options.limit_memory = false;
  const Evaluator evaluator(c.graph, c.machine->topology, *c.model, options);
  for (auto _ : state) benchmark::DoNotOptimize(evaluator.Evaluate(c.strategy).time);
  Report(state, c.tasks.tasks().size());
}

void Register(const std::shared_ptr<Case>& c) {
  const std::pair<const char*, void (*)(benchmark::State&, const Case&)> kinds[] = {
      {"full_simulation", BM_FullSimulation},
      {"schedule", BM_Schedule},
      {"partition", BM_Partition},
      {"price", BM_Price},
      {"assign_buffers", BM_AssignBuffers},
      {"evaluate", BM_Evaluate}};
  for (const auto& [kind, run] : kinds) {
    benchmark::RegisterBenchmark((std::string(kind) + "/" + c->name).c_str(),
                                 [c, run = run](benchmark::State& state) { run(state, *c); });
  }
}

void RegisterAll() {
  for (const bool is_random : {false, true}) {
    Register(MakeCase("alexnet", "p100-4x4", 4, is_random));
    Register(MakeCase("alexnet", "p100-4x4", 16, is_random));
    Register(MakeCase("resnet50", "p100-4x4", 4, is_random));
    Register(MakeCase("resnet50", "p100-4x4", 16, is_random));
  }
  Register(MakeCase("resnet50", "k80-16x4", 64, false));
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  partita::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
