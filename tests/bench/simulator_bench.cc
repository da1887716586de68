// What one evaluation costs for each task, part by part, all fragments being known. Graphs are
// training steps of zoo models; "first loop" splits every operator over all devices along its first
// loop, "random" draws every configuration.
//
//   assemble   the step as flat arrays, from kept fragments, and who waits for whom
//   simulate   full simulation: the event-driven schedule of all tasks, from nothing but these
//              arrays, and the total order that it gives
//   memory     the place of every buffer in that order
//   whole      all of it as a search calls it where memory is not limited, so that no buffer is placed
//   partition, flatten    the same step without the cache: its task graph, and arrays from that
//
// The last lines compare simulation with its limit of 150 ns a task; exit 1 where a median is above
// it.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cost_model/default_cost_model.h"
#include "cost_model/machines.h"
#include "graph/partition/partition.h"
#include "graph/partition/planned_step.h"
#include "graph/support/check.h"
#include "graph/training/training_graph.h"
#include "graph/zoo/models.h"
#include "planner/evaluator.h"
#include "planner/simulator/simulator.h"
#include "planner/step_cache.h"
#include "tests/planner/strategies.h"
#include "tests/testing/ok.h"
#include "tests/testing/random_strategy.h"

namespace partita {
namespace {

constexpr double kLimit = 150;  // ns for each task

struct Case {
  std::string name;  // model/machine/devices/strategy
  Graph graph;
  std::shared_ptr<const Machine> machine;
  std::unique_ptr<CostModel> model;
  std::unique_ptr<SimulatedResources> resources;
  MemorySizes sizes;
  Strategy strategy;

  PartitionOptions options() const { return PartitionOptionsOf(machine->topology, {}); }
  FlatteningRules rules() const { return {*resources, *model, sizes}; }
  StepCache MakeCache() const {
    return StepCache(graph, options(), rules(), Bytes(std::numeric_limits<int64_t>::max()));
  }
};

std::shared_ptr<Case> MakeCase(const std::string& model, const std::string& machine, int devices,
                               bool is_random) {
  auto c = std::make_shared<Case>();
  c->name = model + "/" + machine + "/" + std::to_string(devices) +
            (is_random ? "/random" : "/first loop");
  c->graph = Ok(BuildTrainingGraph(Ok(MakeZooModel(model, 256)), {}));
  c->machine = std::make_shared<const Machine>(Ok(FindMachine(machine, devices)));
  c->model = MakeDefaultCostModel(c->machine);
  c->resources = std::make_unique<SimulatedResources>(c->machine->topology);
  std::mt19937_64 random(1);
  c->strategy =
      is_random ? RandomStrategy(c->graph, devices, random) : SplitFirstLoop(c->graph, devices);
  return c;
}

void Report(benchmark::State& state, size_t tasks) {
  state.counters["tasks"] = static_cast<double>(tasks);
  state.counters["time/task"] =
      benchmark::Counter(static_cast<double>(tasks), benchmark::Counter::kIsIterationInvariantRate |
                                                         benchmark::Counter::kInvert);
}

const FlatStep& FlatOf(StepCache& cache, const Strategy& strategy) {
  CHECK(Ok(cache.FindOrBuild(strategy, {})).has_step);
  return cache.Flat();
}

void BM_Assemble(benchmark::State& state, const Case& c) {
  StepCache cache = c.MakeCache();
  size_t tasks = FlatOf(cache, c.strategy).costs.size();
  for (auto _ : state) benchmark::DoNotOptimize(&FlatOf(cache, c.strategy));
  Report(state, tasks);
}

void BM_Simulate(benchmark::State& state, const Case& c) {
  StepCache cache = c.MakeCache();
  const FlatStep& step = FlatOf(cache, c.strategy);
  const std::vector<Nanos> durations = DurationsOf(step.costs);
  for (auto _ : state) {
    const Schedule schedule = Simulate(step.tasks, durations);
    benchmark::DoNotOptimize(OrderOf(step.tasks, schedule).data());
  }
  Report(state, step.costs.size());
}

void BM_Memory(benchmark::State& state, const Case& c) {
  StepCache cache = c.MakeCache();
  const FlatStep& step = FlatOf(cache, c.strategy);
  const std::vector<TaskId> order =
      OrderOf(step.tasks, Simulate(step.tasks, DurationsOf(step.costs)));
  for (auto _ : state) benchmark::DoNotOptimize(AssignBuffers(step.uses, order).offset.data());
  Report(state, step.costs.size());
}

void BM_Whole(benchmark::State& state, const Case& c) {
  Evaluator::Options options;
  options.limit_memory = false;
  options.max_cached = Bytes(std::numeric_limits<int64_t>::max());
  const Evaluator evaluator(c.graph, c.machine->topology, *c.model, options);
  const Nanos enough(std::numeric_limits<int64_t>::max());
  const Evaluation first = evaluator.EvaluateBriefly(c.strategy, enough);
  for (auto _ : state) {
    benchmark::DoNotOptimize(evaluator.EvaluateBriefly(c.strategy, enough).time);
  }
  Report(state, static_cast<size_t>(first.tasks));
}

void BM_Partition(benchmark::State& state, const Case& c) {
  size_t tasks = 0;
  for (auto _ : state) tasks = Ok(Partition(c.graph, c.strategy, c.options())).tasks().size();
  Report(state, tasks);
}

void BM_Flatten(benchmark::State& state, const Case& c) {
  const TaskGraph tasks = Ok(Partition(c.graph, c.strategy, c.options()));
  for (auto _ : state) benchmark::DoNotOptimize(FlattenStep(tasks, c.rules()).costs.data());
  Report(state, tasks.tasks().size());
}

double MinimumOf(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}

void Register(const std::shared_ptr<Case>& c) {
  const std::pair<const char*, void (*)(benchmark::State&, const Case&)> kinds[] = {
      {"assemble", BM_Assemble}, {"simulate", BM_Simulate},   {"memory", BM_Memory},
      {"whole", BM_Whole},       {"partition", BM_Partition}, {"flatten", BM_Flatten}};
  for (const auto& [kind, run] : kinds) {
    benchmark::RegisterBenchmark((std::string(kind) + "/" + c->name).c_str(),
                                 [c, run = run](benchmark::State& state) { run(state, *c); })
        ->MinTime(0.05)
        ->Repetitions(5)
        ->ComputeStatistics("min", MinimumOf)
        ->ReportAggregatesOnly();
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

// Prints as usual, and keeps the time for each task of simulations: (minimum, median) in ns.
class LimitReporter : public benchmark::ConsoleReporter {
 public:
  void ReportRuns(const std::vector<Run>& runs) override {
    ConsoleReporter::ReportRuns(runs);
    for (const Run& run : runs) {
      const std::string name = run.run_name.function_name;
      const auto time = run.counters.find("time/task");
      if (name.rfind("simulate/", 0) != 0 || time == run.counters.end()) continue;
      if (run.aggregate_name == "min") rows_[name].first = time->second.value * 1e9;
      if (run.aggregate_name == "median") rows_[name].second = time->second.value * 1e9;
    }
  }

  bool PrintAgainstLimit() const {
    bool good = true;
    std::printf("\nns for each simulated task  minimum  median  (limit %.0f)\n", kLimit);
    for (const auto& [name, row] : rows_) {
      std::printf("%-40s %6.0f  %6.0f\n", name.c_str(), row.first, row.second);
      good = good && row.second <= kLimit;
    }
    return good;
  }

 private:
  std::map<std::string, std::pair<double, double>> rows_;
};

}  // namespace
}  // namespace partita

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  partita::RegisterAll();
  partita::LimitReporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  return reporter.PrintAgainstLimit() ? 0 : 1;
}
