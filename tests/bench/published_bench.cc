// Simulated steps beside published figures, as tables in Markdown. Durations are by roofline and
// links: what the machines' data sheets say, not what was measured on them.
//
// FlexFlow (Jia et al., MLSys 2019, section 8): searched strategies of six models over data
// parallelism and over the best expert, 1.3 to 3.3 times; ResNet-101 about equal; bytes moved in a
// step of NMT 2 to 5.5 times fewer. Batch 256 for AlexNet, 64 for the others.
//
// Cho et al. 2017 (PowerAI DDL): ResNet-50, 90 epochs on 64 nodes of 4 P100, batch 8,192, in 48
// minutes, by a multi-colour all-reduce. Of an epoch's 1,281,167 images each step takes a batch; the
// time is that of the steps alone, without reading or validation.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cost_model/default_cost_model.h"
#include "cost_model/machines.h"
#include "graph/training/training_graph.h"
#include "graph/zoo/models.h"
#include "planner/collective_choice.h"
#include "planner/evaluator.h"
#include "planner/expert/expert_strategies.h"
#include "planner/search/search_algorithm.h"
#include "tests/testing/ok.h"

namespace partita {
namespace {

struct BenchOptions {
  std::vector<std::string> models = {"alexnet", "inception_v3", "resnet101",
                                     "rnntc",   "rnnlm",        "nmt"};
  std::vector<std::string> machines = {"p100-4x4", "k80-16x4"};
  std::vector<int> devices = {4, 16, 64};
  int64_t evaluations = 1000;
  bool epochs = true;
};

double Milliseconds(Nanos time) { return static_cast<double>(time.value()) * 1e-6; }

double Ratio(Nanos a, Nanos b) {
  return static_cast<double>(a.value()) / static_cast<double>(b.value());
}

Bytes Moved(const Evaluation& evaluation) {
  Bytes sum;
  for (Bytes bytes : evaluation.received) sum += bytes;
  return sum;
}

// Training graphs and machines of one case; the evaluator refers to both.
struct Setting {
  Setting(const std::string& model, int64_t batch, const std::string& name, int devices)
      : graph(Ok(BuildTrainingGraph(Ok(MakeZooModel(model, batch)), {}))),
        machine(std::make_shared<const Machine>(Ok(FindMachine(name, devices)))),
        costs(MakeSyntheticCostModel(machine)),
        evaluator(graph, machine->topology, *costs) {}

  Graph graph;
  std::shared_ptr<const Machine> machine;
  std::unique_ptr<CostModel> costs;
  Evaluator evaluator;
};

// Data parallelism's evaluation, which may not fit in memory, and the best other start.
struct Starts {
  Evaluation data_parallel;
  std::string best_expert;
  Nanos best_time;
};

Starts EvaluateStarts(const Setting& at, const std::vector<NamedStrategy>& starts) {
  Starts found;
  for (const NamedStrategy& start : starts) {
    const Evaluation evaluation = at.evaluator.Evaluate(start.strategy);
    if (start.name == "data_parallel") {
      found.data_parallel = evaluation;
    } else if (evaluation.feasible() &&
               (found.best_expert.empty() || evaluation.time < found.best_time)) {
      found.best_expert = start.name;
      found.best_time = evaluation.time;
    }
  }
  return found;
}

void PrintSpeedUp(const std::string& model, const std::string& machine, int devices,
                  int64_t evaluations) {
  const Setting at(model, model == "alexnet" ? 256 : 64, machine, devices);
  const std::vector<NamedStrategy> starts = ExpertStarts(at.graph, at.machine->topology);
  const Starts known = EvaluateStarts(at, starts);
  const SearchProblem problem{at.evaluator,
                              SearchSpace(at.graph, devices),
                              starts,
                              {},
                              ExpertsOnFewer(at.graph, at.machine->topology)};
  const SearchResult result = Ok(SearchAuto(problem, {.evaluations = evaluations}));
  const Evaluation found = at.evaluator.Evaluate(result.best);
  std::printf("| %s | %s, %d | %.1f | ", model.c_str(), machine.c_str(), devices,
              Milliseconds(found.time));
  if (known.data_parallel.feasible()) {
    std::printf("%.2f | ", Ratio(known.data_parallel.time, found.time));
  } else {
    std::printf("does not fit | ");
  }
  std::printf("%.2f, %s | %.2f GB, %.2f GB | %s |\n", Ratio(known.best_time, found.time),
              known.best_expert.c_str(), static_cast<double>(Moved(found).value()) * 1e-9,
              static_cast<double>(Moved(known.data_parallel).value()) * 1e-9,
              result.origin.c_str());
  std::fflush(stdout);
}

// The strategy with one algorithm for all of its all-reduces.
Strategy WithAllReducesBy(const Setting& at, Strategy strategy, const std::string& algorithm) {
  for (const auto& one : Ok(at.evaluator.CollectivesOf(strategy))) {
    if (one.task.collective.kind != CollectiveKind::kAllReduce) continue;
    strategy.algorithms.push_back({one.id, algorithm});
  }
  return strategy;
}

void PrintEpochs() {
  constexpr double kImages = 1281167, kEpochs = 90;
  constexpr int64_t kBatch = 8192;
  const Setting at("resnet50", kBatch, "minsky-64x4", 256);
  const Strategy strategy = Ok(DataParallel(at.graph, at.machine->topology));
  std::printf(
      "\n| all-reduce | step, ms | without buckets | 90 epochs of ResNet-50, minutes |\n"
      "|---|---|---|---|\n");
  const auto print = [&](const char* name, const Strategy& apart) {
    const Evaluation alone = at.evaluator.EvaluateBriefly(apart, kNoCutoff);
    Evaluation step = alone;
    if (apart.algorithms.empty()) step = WithBuckets(at.evaluator, apart).evaluation;
    const double steps = kEpochs * kImages / static_cast<double>(kBatch);
    std::printf("| %s | %.1f | %.1f | %.1f |\n", name, Milliseconds(step.time),
                Milliseconds(alone.time), steps * Milliseconds(step.time) / 60e3);
    std::fflush(stdout);
  };
  for (const char* name : {"ring", "halving_doubling", "multicolor_tree", "hierarchical"}) {
    print(name, WithAllReducesBy(at, strategy, name));
  }
  print("the cheapest of each, in buckets", strategy);
  std::printf("| published (multi-colour, measured) | | | 48 |\n");
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) {
  using namespace partita;
  BenchOptions options;
  CLI::App app{"simulated steps beside published figures"};
  app.add_option("--models", options.models)->delimiter(',');
  app.add_option("--machines", options.machines)->delimiter(',');
  app.add_option("--devices", options.devices)->delimiter(',');
  app.add_option("--evaluations", options.evaluations, "of each search");
  app.add_flag("--epochs,!--no_epochs", options.epochs, "ResNet-50 on minsky-64x4 as well");
  CLI11_PARSE(app, argc, argv);
  std::printf(
      "| model | machine, devices | step, ms | over data parallelism | over the best expert |"
      " moved: plan, data parallelism | from |\n|---|---|---|---|---|---|---|\n");
  for (const std::string& machine : options.machines) {
    const int most = Ok(FindMachine(machine)).topology.size();
    for (const std::string& model : options.models) {
      for (int devices : options.devices) {
        if (devices <= most) PrintSpeedUp(model, machine, devices, options.evaluations);
      }
    }
  }
  if (options.epochs) PrintEpochs();
}
