// Steps by rule of priority (planner/simulator/priorities.h): the time of each against that by
// readiness, as devices without a plan would run them. For models and numbers of devices: the
// geometric mean, the least and the largest ratio over all experts and over strategies of random
// decisions around them.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cost_model/default_cost_model.h"
#include "cost_model/machines.h"
#include "graph/training/training_graph.h"
#include "graph/zoo/models.h"
#include "planner/evaluator.h"
#include "planner/expert/expert_strategies.h"
#include "planner/simulator/priorities.h"
#include "planner/space/search_space.h"
#include "tests/testing/ok.h"

namespace partita {
namespace {

constexpr char kReference[] = "first_ready";

struct BenchOptions {
  std::vector<std::string> models = {"alexnet", "vgg16", "resnet18", "rnnlm"};
  std::vector<int> devices = {4, 16, 64};
  std::string machine = "k80-16x4";
  int64_t batch = 256;
  int random = 12;  // strategies for each model and number of devices
};

class Ratios {
 public:
  void Add(double ratio) {
    logarithms_ += std::log(ratio);
    least_ = std::min(least_, ratio);
    largest_ = std::max(largest_, ratio);
    ++count_;
  }
  double Mean() const { return std::exp(logarithms_ / count_); }
  double least() const { return least_; }
  double largest() const { return largest_; }

 private:
  double logarithms_ = 0, least_ = 1e9, largest_ = 0;
  int count_ = 0;
};

// The experts, and each of them in turn with a few random decisions.
std::vector<Strategy> StrategiesOf(const Graph& graph, const Machine& machine, int random_ones) {
  std::vector<Strategy> strategies;
  for (const NamedStrategy& expert : ExpertStarts(graph, machine.topology)) {
    strategies.push_back(expert.strategy);
  }
  const SearchSpace space(graph, machine.topology.size());
  std::mt19937_64 random(1);
  const size_t experts = strategies.size();
  for (int k = 0; k < random_ones; ++k) {
    Strategy changed = strategies[static_cast<size_t>(k) % experts];
    for (int change = 0; change < 3; ++change) {
      const OpId op = space.operators()[random() % space.operators().size()];
      changed.configs[op.index()] = space.RandomConfig(op, random);
    }
    strategies.push_back(std::move(changed));
  }
  return strategies;
}

Nanos TimeBy(const Priority& priority, const Graph& graph, const Machine& machine,
             const CostModel& costs, const Strategy& strategy) {
  Evaluator::Options options;
  options.priority = &priority;
  options.limit_memory = false;
  return Evaluator(graph, machine.topology, costs, options)
      .EvaluateBriefly(strategy, kNoCutoff)
      .time;
}

void Measure(const std::string& model, int devices, const BenchOptions& options) {
  const Graph graph = Ok(BuildTrainingGraph(Ok(MakeZooModel(model, options.batch)), {}));
  const auto machine = std::make_shared<const Machine>(Ok(FindMachine(options.machine, devices)));
  const auto costs = MakeSyntheticCostModel(machine);
  const auto rows = Priorities();
  std::vector<Ratios> ratios(rows.size());
  for (const Strategy& strategy : StrategiesOf(graph, *machine, options.random)) {
    const Nanos reference =
        TimeBy(*Ok(PriorityNamed(kReference)), graph, *machine, *costs, strategy);
    if (reference == Nanos(0)) continue;
    for (size_t r = 0; r < rows.size(); ++r) {
      const Nanos time = TimeBy(rows[r], graph, *machine, *costs, strategy);
      ratios[r].Add(static_cast<double>(time.value()) / static_cast<double>(reference.value()));
    }
  }
  for (size_t r = 0; r < rows.size(); ++r) {
    std::printf("%-12s %5d  %-16s %.4f  %.4f .. %.4f\n", model.c_str(), devices, rows[r].name,
                ratios[r].Mean(), ratios[r].least(), ratios[r].largest());
  }
  std::fflush(stdout);
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) {
  using namespace partita;
  BenchOptions options;
  CLI::App app{"steps by rule of priority"};
  app.add_option("--models", options.models)->delimiter(',');
  app.add_option("--devices", options.devices)->delimiter(',');
  app.add_option("--machine", options.machine);
  app.add_option("--batch", options.batch);
  app.add_option("--random", options.random, "strategies besides the experts");
  CLI11_PARSE(app, argc, argv);
  std::printf("time of a step over that by %s: geometric mean, least .. largest\n", kReference);
  for (const std::string& model : options.models) {
    for (int devices : options.devices) Measure(model, devices, options);
  }
}
