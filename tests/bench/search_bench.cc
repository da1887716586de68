// Cost of a proposal, as a search sees it. A chain of Metropolis steps (FlexFlow, MLSys 2019,
// section 6) starts from the best expert strategy. A proposal gives one random operator one random
// configuration of the whole space; those that change nothing are not counted. Each is evaluated
// as a search does, against a threshold drawn first ("early exit"), and the same proposals once
// more to the end ("complete"). Microseconds depend on the machine: `sort` is the time of std::sort
// on 2^20 random 64-bit integers in the same run.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "cost_model/default_cost_model.h"
#include "cost_model/machines.h"
#include "graph/training/training_graph.h"
#include "graph/zoo/models.h"
#include "planner/evaluator.h"
#include "planner/expert/expert_strategies.h"
#include "planner/space/search_space.h"
#include "tests/bench/processor_time.h"
#include "tests/testing/ok.h"

namespace partita {
namespace {

struct BenchOptions {
  std::vector<std::string> models = {"alexnet", "resnet18"};
  std::vector<int> devices = {4, 16, 64};
  std::string machine = "k80-16x4";
  int64_t batch = 256;
  int proposals = 400;
  int warm_up = 400;
  double beta = 200;
};

double Microseconds() { return ProcessorSeconds() * 1e6; }

double TimeOfSort() {
  std::mt19937_64 random(1);
  std::vector<uint64_t> values(size_t{1} << 20);
  for (uint64_t& value : values) value = random();
  const double begin = Microseconds();
  std::sort(values.begin(), values.end());
  return (Microseconds() - begin) / 1000;
}

struct Times {
  std::vector<double> all;
  double Mean() const {
    double sum = 0;
    for (double time : all) sum += time;
    return sum / static_cast<double>(all.size());
  }
  double Quantile(double q) {
    std::sort(all.begin(), all.end());
    return all[static_cast<size_t>(q * static_cast<double>(all.size() - 1))];
  }
};

class Chain {
 public:
  Chain(const Graph& graph, const Machine& machine, const Evaluator& evaluator,
        const BenchOptions& options)
      : graph_(graph),
        evaluator_(evaluator),
        options_(options),
        space_(graph, machine.topology.size()) {
    for (const NamedStrategy& expert : ExpertStarts(graph, machine.topology)) {
      const Evaluation evaluation = evaluator.EvaluateBriefly(expert.strategy, kNoCutoff);
      if (!evaluation.feasible() || (has_ && evaluation.time >= time_)) continue;
      current_ = expert.strategy;
      time_ = unit_ = evaluation.time;
      has_ = true;
    }
  }

  // Makes a step; adds what it took.
  void Step(bool counted) {
    const OpId op = graph_.anchors()[random_() % graph_.anchors().size()];
    ParallelConfig config = space_.RandomConfig(op, random_);
    if (config == current_.configs[op.index()]) return;
    Strategy proposal = current_;
    proposal.configs[op.index()] = std::move(config);
    const double u = (static_cast<double>(random_() >> 11) + 0.5) * 0x1p-53;
    const double slack = -std::log(u) / options_.beta * static_cast<double>(unit_.value());
    const Nanos limit = time_ + Nanos(static_cast<int64_t>(slack));
    const double begin = Microseconds();
    const Evaluation evaluation = evaluator_.EvaluateBriefly(proposal, limit);
    const double end = Microseconds();
    const bool accepted = evaluation.feasible() && evaluation.time <= limit;
    if (counted) {
      early_.all.push_back(end - begin);
      bounded_ += evaluation.tasks == 0;
      accepted_ += accepted;
      kept_.push_back(proposal);
    }
    if (!accepted) return;
    current_ = std::move(proposal);
    time_ = evaluation.time;
  }

  void Complete(const Evaluator& evaluator) {
    for (const Strategy& strategy : kept_) {
      const double begin = Microseconds();
      const Evaluation evaluation = evaluator.EvaluateBriefly(strategy, kNoCutoff);
      complete_.all.push_back(Microseconds() - begin);
      tasks_ += evaluation.tasks;
    }
  }

  size_t counted() const { return kept_.size(); }
  void Print(const std::string& model) {
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    const auto n = static_cast<double>(kept_.size());
    const double tasks = static_cast<double>(tasks_) / n;
    std::printf(
        "%-12s %5d | %9.0f %9.0f %9.0f | %9.0f %9.0f | %8.0f %7.0f | %5.1f %% %5.1f %% | %6ld MB\n",
        model.c_str(), space_.devices(), early_.Mean(), early_.Quantile(0.5), early_.Quantile(0.99),
        complete_.Mean(), complete_.Quantile(0.5), tasks, complete_.Mean() * 1000 / tasks,
        100 * static_cast<double>(accepted_) / n, 100 * static_cast<double>(bounded_) / n,
        usage.ru_maxrss / 1024);
    std::fflush(stdout);
  }

 private:
  const Graph& graph_;
  const Evaluator& evaluator_;
  const BenchOptions& options_;
  const SearchSpace space_;
  std::mt19937_64 random_{1};
  Strategy current_;
  Nanos time_, unit_;
  bool has_ = false;
  Times early_, complete_;
  std::vector<Strategy> kept_;
  int64_t accepted_ = 0, bounded_ = 0, tasks_ = 0;
};

void Measure(const std::string& model, int devices, const BenchOptions& options) {
  const Graph graph = Ok(BuildTrainingGraph(Ok(MakeZooModel(model, options.batch)), {}));
  const auto machine = std::make_shared<const Machine>(Ok(FindMachine(options.machine, devices)));
  const auto costs = MakeSyntheticCostModel(machine);
  const Evaluator evaluator(graph, machine->topology, *costs);
  Chain chain(graph, *machine, evaluator, options);
  for (int k = 0; k < options.warm_up; ++k) chain.Step(false);
  while (chain.counted() < static_cast<size_t>(options.proposals)) chain.Step(true);
  // Has none of the proposals yet, as at their first evaluation.
  const Evaluator fresh(graph, machine->topology, *costs);
  chain.Complete(fresh);
  chain.Print(model);
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) {
  using namespace partita;
  BenchOptions options;
  CLI::App app{"cost of a search's proposals"};
  app.add_option("--models", options.models)->delimiter(',');
  app.add_option("--devices", options.devices)->delimiter(',');
  app.add_option("--machine", options.machine);
  app.add_option("--batch", options.batch);
  app.add_option("--proposals", options.proposals);
  app.add_option("--warm_up", options.warm_up);
  app.add_option("--beta", options.beta);
  CLI11_PARSE(app, argc, argv);
  std::printf("machine %s, batch %ld; std::sort of 2^20 integers: %.1f ms\n",
              options.machine.c_str(), options.batch, TimeOfSort());
  std::printf(
      "model      devices | early exit, us: mean, median, p99 | complete, us: mean, median |"
      " tasks, ns each | accepted, bounded | memory\n");
  for (const std::string& model : options.models) {
    for (int devices : options.devices) Measure(model, devices, options);
  }
}
