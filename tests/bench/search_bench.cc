// Searches in figures, for models and numbers of devices; above 64 devices the batch grows in
// proportion.
//
// Cost of a proposal, as a search sees it. A chain of Metropolis steps (FlexFlow, MLSys 2019,
// section 6) starts from the best expert strategy. A proposal gives one random operator one random
// configuration of the whole space; those that change nothing are not counted. Each is evaluated
// as a search does, against a threshold drawn first ("early exit"), and the same proposals once
// more to the end ("complete"). Beside it what FlexFlow's public simulator takes for a complete
// evaluation, on a faster core. Microseconds depend on the machine: `sort` is the time of std::sort
// on 2^20 random 64-bit integers in the same run.
//
// A whole search: processor seconds until it is within 1 % of the best known and to its end, its
// speed-up over data parallelism and over the best expert, the lower bound and the gap to it. The
// best known steps stand in a file, one for each machine, model, number of devices and batch; with
// --update a better one, or a new one, is written there.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cost_model/default_cost_model.h"
#include "cost_model/machines.h"
#include "graph/training/training_graph.h"
#include "graph/zoo/models.h"
#include "planner/evaluator.h"
#include "planner/expert/expert_strategies.h"
#include "planner/lower_bound.h"
#include "planner/search/search_algorithm.h"
#include "planner/space/search_space.h"
#include "tests/bench/processor_time.h"
#include "tests/testing/ok.h"

namespace partita {
namespace {

struct BenchOptions {
  std::vector<std::string> models = {"alexnet", "inception_v3", "resnet101", "rnntc",
                                     "rnnlm",   "nmt",          "nmt_short", "gpt_125m"};
  std::vector<int> devices = {4, 8, 16, 32, 64};
  std::string machine = "k80-16x4";
  int64_t batch = 0;  // 0: the model's own
  int proposals = 400;
  int warm_up = 400;
  double beta = 200;
  std::string search = "auto";
  int64_t evaluations = 1000;  // of the search; 0: none
  uint64_t seed = 0;
  std::string best_known;
  bool update = false;
};

// Batches of FlexFlow's evaluation (MLSys 2019, section 8): 256 for AlexNet, 64 for the others.
int64_t BatchOf(const std::string& model, int devices, const BenchOptions& options) {
  const int64_t own = model == "alexnet" ? 256 : 64;
  const int64_t batch = options.batch > 0 ? options.batch : own;
  return batch * std::max(devices, 64) / 64;
}

// Microseconds of a complete evaluation in FlexFlow's public simulator; 0: not measured.
double FlexFlowMicroseconds(const std::string& model, int devices) {
  static const std::map<std::pair<std::string, int>, double> kMeasured = {
      {{"alexnet", 4}, 11},       {{"alexnet", 16}, 182},       {{"alexnet", 64}, 3173},
      {{"inception_v3", 4}, 143}, {{"inception_v3", 16}, 1462}, {{"inception_v3", 64}, 19461},
      {{"resnet101", 4}, 98},     {{"resnet101", 16}, 936},     {{"resnet101", 64}, 12901},
      {{"nmt_short", 4}, 69},     {{"nmt_short", 16}, 577},     {{"nmt_short", 64}, 8633}};
  const auto it = kMeasured.find({model, devices});
  return it == kMeasured.end() ? 0 : it->second;
}

// The best known steps: (machine, model, devices, batch) and nanoseconds, a line each.
class BestKnown {
 public:
  using Case = std::tuple<std::string, std::string, int, int64_t>;

  explicit BestKnown(std::string path) : path_(std::move(path)) {
    std::ifstream file(path_);
    std::string machine, model;
    int devices = 0;
    int64_t batch = 0, nanoseconds = 0;
    while (file >> machine >> model >> devices >> batch >> nanoseconds) {
      steps_[{machine, model, devices, batch}] = Nanos(nanoseconds);
    }
  }
  // The least of what is known and `found`, which is kept.
  Nanos Least(const Case& of, Nanos found) {
    const auto [it, added] = steps_.try_emplace(of, found);
    return it->second = std::min(it->second, found);
  }
  void Write() const {
    std::ofstream file(path_);
    for (const auto& [of, time] : steps_) {
      const auto& [machine, model, devices, batch] = of;
      file << machine << ' ' << model << ' ' << devices << ' ' << batch << ' ' << time.value()
           << '\n';
    }
  }

 private:
  const std::string path_;
  std::map<Case, Nanos> steps_;
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
      solved_ += evaluation.solved;
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
    const auto n = static_cast<double>(kept_.size());
    const double tasks = static_cast<double>(tasks_) / n;
    const double tensors = n * static_cast<double>(graph_.tensors().size());
    std::printf(
        "%-12s %5d | %9.0f %9.0f %9.0f | %9.0f %9.0f %9.0f | %8.0f %7.0f |"
        " %5.1f %% %5.1f %% %5.1f %% |",
        model.c_str(), space_.devices(), early_.Mean(), early_.Quantile(0.5), early_.Quantile(0.99),
        complete_.Mean(), complete_.Quantile(0.5), FlexFlowMicroseconds(model, space_.devices()),
        tasks, complete_.Mean() * 1000 / tasks, 100 * static_cast<double>(accepted_) / n,
        100 * static_cast<double>(bounded_) / n,
        100 * (1 - static_cast<double>(solved_) / tensors));
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
  int64_t accepted_ = 0, bounded_ = 0, tasks_ = 0, solved_ = 0;
};

void MeasureProposals(const std::string& model, const Graph& graph, const Machine& machine,
                      const CostModel& costs, const BenchOptions& options) {
  const Evaluator evaluator(graph, machine.topology, costs);
  Chain chain(graph, machine, evaluator, options);
  for (int k = 0; k < options.warm_up; ++k) chain.Step(false);
  while (chain.counted() < static_cast<size_t>(options.proposals)) chain.Step(true);
  // Has none of the proposals yet, as at their first evaluation.
  const Evaluator fresh(graph, machine.topology, costs);
  chain.Complete(fresh);
  chain.Print(model);
}

// The step of data parallelism and of the best of the starts; 0 where none is known.
std::pair<Nanos, Nanos> TimesOfStarts(const SearchProblem& problem) {
  Nanos data_parallel, best;
  for (const NamedStrategy& start : problem.starts) {
    const Evaluation evaluation = problem.evaluator.EvaluateBriefly(start.strategy, kNoCutoff);
    if (!evaluation.feasible()) continue;
    if (start.name == "data_parallel") data_parallel = evaluation.time;
    if (best == Nanos(0) || evaluation.time < best) best = evaluation.time;
  }
  return {data_parallel, best};
}

void MeasureSearch(const BestKnown::Case& of, const SearchProblem& problem,
                   const BenchOptions& options, BestKnown& known) {
  const double begin = ProcessorSeconds();
  std::vector<std::pair<double, Nanos>> trace;  // seconds and the best so far
  SearchOptions search{.evaluations = options.evaluations, .seed = options.seed, .threads = 1};
  search.progress = [&](const SearchProgress& progress) {
    trace.emplace_back(ProcessorSeconds() - begin, progress.best);
  };
  const SearchResult found = Ok(Ok(SearchNamed(options.search))(problem, search));
  const double end = ProcessorSeconds() - begin;
  trace.emplace_back(end, found.evaluation.time);
  const Nanos least = known.Least(of, found.evaluation.time);
  const auto near = std::find_if(trace.begin(), trace.end(), [&](const auto& point) {
    return static_cast<double>(point.second.value()) <= 1.01 * static_cast<double>(least.value());
  });
  const auto [data_parallel, expert] = TimesOfStarts(problem);
  const auto over = [&](Nanos time) {
    return static_cast<double>(time.value()) / static_cast<double>(found.evaluation.time.value());
  };
  if (near == trace.end()) {
    std::printf(" %8s", "-");
  } else {
    std::printf(" %8.2f", near->first);
  }
  std::printf(" %8.2f | %6.3f %6.3f %6.3f | %5.1f %% |", end, 1 / over(least), over(data_parallel),
              over(expert), 100 * GapOf(found.evaluation.time, problem.bound.time()));
}

void Measure(const std::string& model, int devices, const BenchOptions& options, BestKnown& known) {
  const int64_t batch = BatchOf(model, devices, options);
  const Graph graph = Ok(BuildTrainingGraph(Ok(MakeZooModel(model, batch)), {}));
  const auto machine = std::make_shared<const Machine>(Ok(FindMachine(options.machine, devices)));
  const auto costs = MakeSyntheticCostModel(machine);
  if (options.proposals > 0) MeasureProposals(model, graph, *machine, *costs, options);
  if (options.evaluations > 0) {
    if (options.proposals == 0) std::printf("%-12s %5d |", model.c_str(), devices);
    const Evaluator evaluator(graph, machine->topology, *costs);
    const SearchProblem problem{evaluator, SearchSpace(graph, devices),
                                ExpertStarts(graph, machine->topology), LowerBoundOf(evaluator),
                                [&](const std::string& start, int fewer) {
                                  return ExpertOnFewer(graph, machine->topology, start, fewer);
                                }};
    MeasureSearch({options.machine, model, devices, batch}, problem, options, known);
  }
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  std::printf(" %6ld MB\n", usage.ru_maxrss / 1024);
  std::fflush(stdout);
  if (options.update && !options.best_known.empty()) known.Write();
}

void PrintHeader(const BenchOptions& options) {
  std::printf("machine %s; std::sort of 2^20 integers: %.1f ms\nmodel      devices |",
              options.machine.c_str(), TimeOfSort());
  if (options.proposals > 0) {
    std::printf(
        " early exit, us: mean, median, p99 | complete, us: mean, median, FlexFlow |"
        " tasks, ns each | accepted, bounded, kept tensors |");
  }
  if (options.evaluations > 0) {
    std::printf(
        " %s of %ld evaluations, s: within 1 %%, end | step over best known, speed-up over data "
        "parallelism, best expert | gap |",
        options.search.c_str(), options.evaluations);
  }
  std::printf(" memory so far\n");
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
  app.add_option("--search", options.search);
  app.add_option("--evaluations", options.evaluations, "of the search; 0: no search");
  app.add_option("--seed", options.seed);
  app.add_option("--best_known", options.best_known, "file of the best known steps");
  app.add_flag("--update", options.update, "write better ones, and new ones, to it");
  CLI11_PARSE(app, argc, argv);
  BestKnown known(options.best_known);
  PrintHeader(options);
  for (const std::string& model : options.models) {
    for (int devices : options.devices) Measure(model, devices, options, known);
  }
}
