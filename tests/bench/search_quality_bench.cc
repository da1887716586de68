// What searches find with equal budgets. Times are relative to the best start (the experts'), the
// mean over seeds and the worst; `bound` is the lower bound relative to it; seconds are a search's
// processor time, the mean over seeds.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cost_model/default_cost_model.h"
#include "cost_model/machines.h"
#include "graph/training/training_graph.h"
#include "graph/zoo/models.h"
#include "planner/expert/expert_strategies.h"
#include "planner/lower_bound.h"
#include "planner/search/search_algorithm.h"
#include "tests/bench/processor_time.h"
#include "tests/testing/ok.h"

namespace partita {
namespace {

struct QualityOptions {
  std::vector<std::string> models = {"alexnet", "resnet18", "rnnlm", "nmt_short"};
  std::vector<int> devices = {4, 16, 64};
  std::vector<std::string> searches = {"mcmc", "auto"};
  std::string machine = "k80-16x4";
  int64_t batch = 256;
  int64_t evaluations = 2000;
  int seeds = 5;
};

void MeasureQuality(const std::string& model, int devices, const QualityOptions& options) {
  const Graph graph = Ok(BuildTrainingGraph(Ok(MakeZooModel(model, options.batch)), {}));
  const auto machine = std::make_shared<const Machine>(Ok(FindMachine(options.machine, devices)));
  const auto costs = MakeDefaultCostModel(machine);
  const Evaluator evaluator(graph, machine->topology, *costs);
  const double begin = ProcessorSeconds();
  const LowerBound bound = LowerBoundOf(evaluator);
  const double bounded = ProcessorSeconds() - begin;
  const SearchProblem problem{evaluator, SearchSpace(graph, devices),
                              ExpertStarts(graph, machine->topology), bound};
  const Nanos start = Ok(SearchStarts(problem, {})).evaluation.time;
  const auto relative = [&](Nanos time) {
    return static_cast<double>(time.value()) / static_cast<double>(start.value());
  };
  std::printf("%-10s %4d | bound %.3f%s in %.1f s |", model.c_str(), devices,
              relative(bound.time()), bound.is_complete ? " " : "*", bounded);
  for (const std::string& name : options.searches) {
    const SearchFunction search = Ok(SearchNamed(name));
    double mean = 0, worst = 0, seconds = 0;
    for (int seed = 0; seed < options.seeds; ++seed) {
      const Evaluator fresh(graph, machine->topology, *costs);
      const SearchProblem own{fresh, problem.space, problem.starts, bound};
      const double before = ProcessorSeconds();
      const SearchResult found = Ok(search(
          own,
          {.evaluations = options.evaluations, .seed = static_cast<uint64_t>(seed), .threads = 1}));
      seconds += (ProcessorSeconds() - before) / options.seeds;
      mean += relative(found.evaluation.time) / options.seeds;
      worst = std::max(worst, relative(found.evaluation.time));
    }
    std::printf(" %s %.4f (%.4f) %.1f s |", name.c_str(), mean, worst, seconds);
    std::fflush(stdout);
  }
  std::printf("\n");
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) {
  using namespace partita;
  QualityOptions options;
  CLI::App app{"what searches find"};
  app.add_option("--models", options.models)->delimiter(',');
  app.add_option("--devices", options.devices)->delimiter(',');
  app.add_option("--searches", options.searches)->delimiter(',');
  app.add_option("--machine", options.machine);
  app.add_option("--batch", options.batch);
  app.add_option("--evaluations", options.evaluations);
  app.add_option("--seeds", options.seeds);
  CLI11_PARSE(app, argc, argv);
  for (const std::string& model : options.models) {
    for (int devices : options.devices) MeasureQuality(model, devices, options);
  }
}
