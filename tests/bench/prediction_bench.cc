// Predicted against measured step time on this host: for each model and number of devices, every
// expert that does not decline and the searched plan. Exits 1 where the median error over all plans
// is above 10 %, or where of two plans of one model and number of devices the one predicted faster
// was measured more than 10 % slower.
//
// A machine that others share changes its speed within minutes, so both sides of the comparison are
// measured side by side, in rounds: every plan makes 5 counted steps, long ones in turn with the
// other plans', then every kernel, move and communication of these plans is measured anew, a few
// times. After the last round each plan is predicted, in the order in which it ran, from what the
// rounds measured, and compared with the median of all its counted steps. No step time ever enters
// the profile.
//
//   prediction_bench [--models lenet:64,alexnet:32,resnet18:8] [--devices 1,2] [--steps 25]
//                    [--profile FILE] [--profile_time SECONDS] [--explain N]
//
// --explain N runs each plan with timelines as well and lists the N kinds of tasks whose times
// differ most from what was predicted.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "graph/support/status_macros.h"
#include "planner/expert/expert_strategies.h"
#include "planner/planner.h"
#include "tools/workflow/measured_search.h"
#include "tools/workflow/measurement.h"
#include "tools/workflow/task_errors.h"
#include "tools/workflow/training_model.h"

namespace partita {
namespace {

constexpr double kTolerance = 0.1;

struct BenchFlags {
  std::string models = "lenet:64,alexnet:32,resnet18:8";
  std::string devices = "1,2";
  int steps = 25;
  int explain = 0;
  int64_t evaluations = 2000;
  std::string profile = "prediction_bench.profile.db";
  double profile_time = 120;
};

struct Row {
  std::string model, name;
  int devices = 0;
  Strategy strategy;
  PlanOutcome outcome;  // its step: predicted after the last round
  Nanos measured;

  double predicted_ms() const {
    return static_cast<double>(outcome.step.evaluation.time.value()) / 1e6;
  }
  double measured_ms() const { return static_cast<double>(measured.value()) / 1e6; }
  double error() const { return predicted_ms() / measured_ms() - 1; }
};

// Runs the plan alone with timelines.
absl::Status Explain(const Graph& graph, const Row& row, const BenchFlags& flags) {
  ASSIGN_OR_RETURN(const TrainingState start, InitialState(graph, 1));
  ASSIGN_OR_RETURN(const auto plan,
                   MeasuredPlan::Open(graph, row.outcome.plan, start, {.record_timeline = true}));
  std::vector<std::vector<MeasuredInstruction>> timelines;
  std::vector<int64_t> walls;
  for (int step = 0; step <= flags.steps; ++step) {
    ASSIGN_OR_RETURN(StepResult result, plan->Step());
    if (step == 0) continue;
    walls.push_back(result.wall_ns);
    timelines.push_back(std::move(result.timeline));
  }
  const std::vector<TaskKindError> errors = TaskErrors(row.outcome.step, timelines);
  int64_t predicted = 0, measured = 0;
  for (const TaskKindError& e : errors) {
    predicted += e.predicted;
    measured += e.measured;
  }
  absl::PrintF(
      "  %s: step %.3f ms with timelines; tasks of all lanes predicted %.3f ms, measured %.3f ms\n",
      row.name, static_cast<double>(TimingOf(walls).median_ns) / 1e6,
      static_cast<double>(predicted) / 1e6, static_cast<double>(measured) / 1e6);
  for (size_t k = 0; k < errors.size() && k < static_cast<size_t>(flags.explain); ++k) {
    const TaskKindError& e = errors[k];
    absl::PrintF("    %+9.1f us = %9.1f measured - %9.1f %-12s  %dx %s\n",
                 static_cast<double>(e.difference()) / 1e3, static_cast<double>(e.measured) / 1e3,
                 static_cast<double>(e.predicted) / 1e3, std::string(Name(e.source)), e.tasks,
                 e.kind);
  }
  return absl::OkStatus();
}

// What the plans of one model on so many devices share.
struct Bench {
  const Graph& graph;
  MeasuredSearchRequest request;
  int rounds;  // of measuring

  Evaluator EvaluatorOn(const PricedMachine& priced) const {
    return Evaluator(graph, priced.machine->topology, *priced.model,
                     {.choices = DefaultChoices(priced), .sizes = SizesOn(priced)});
  }
};

absl::Status MakePlans(const Bench& bench, std::vector<Row>& rows) {
  ASSIGN_OR_RETURN(const PricedMachine priced, PriceMachine(bench.request.machine));
  const Evaluator evaluator = bench.EvaluatorOn(priced);
  for (Row& row : rows) {
    ASSIGN_OR_RETURN(row.outcome, PlanOf(evaluator, row.strategy, row.name));
  }
  return absl::OkStatus();
}

// Measures the tasks of all plans: those that are not known, or with `again` each of them in one
// pass. Of what was measured before the rounds nothing is kept, but for tasks so slow that a pass
// has fewer samples of them.
absl::Status Profile(const Bench& bench, const std::vector<Row>& rows, bool again) {
  ASSIGN_OR_RETURN(const PricedMachine priced, PriceMachine(bench.request.machine));
  std::vector<const TaskGraph*> graphs;
  for (const Row& row : rows) graphs.push_back(&row.outcome.step.tasks);
  ProfilingRequest profiling;
  profiling.profile = bench.request.machine.profile;
  profiling.seconds = bench.request.profile_seconds;
  if (again) {
    profiling.add_samples = true;
    profiling.most_repeats = 0;  // the next round does
    profiling.samples = profiling.samples_per_pass;
    profiling.most_samples =
        bench.rounds * profiling.samples_per_pass * priced.machine->topology.size();
  }
  ASSIGN_OR_RETURN(const ProfilingResult result,
                   ProfileSignatures(SignaturesOf(graphs), priced, profiling));
  if (!result.complete) {
    absl::PrintF("only %d of %d tasks were measured in %.0f s: raise --profile_time\n",
                 result.known + result.measured, result.wanted, profiling.seconds);
  }
  return absl::OkStatus();
}

// Steps and tasks by turns.
absl::Status Measure(const Bench& bench, std::vector<Row>& rows) {
  std::vector<Plan> plans;
  for (const Row& row : rows) plans.push_back(row.outcome.plan);
  InterleavedMeasurement measurement(bench.graph, std::move(plans));
  for (int round = 0; round < bench.rounds; ++round) {
    RETURN_IF_ERROR(measurement.Round());
    RETURN_IF_ERROR(Profile(bench, rows, true));
  }
  const std::vector<std::optional<Nanos>> times = measurement.Medians();
  for (size_t k = 0; k < rows.size(); ++k) rows[k].measured = times[k].value_or(Nanos(0));
  return absl::OkStatus();
}

absl::Status Predict(const Bench& bench, std::vector<Row>& rows) {
  ASSIGN_OR_RETURN(const PricedMachine priced, PriceMachine(bench.request.machine));
  const Evaluator evaluator = bench.EvaluatorOn(priced);
  for (Row& row : rows) {
    EvaluatedStep& step = row.outcome.step;
    ASSIGN_OR_RETURN(step, evaluator.EvaluateOrder(std::move(step.tasks), std::move(step.order)));
  }
  return absl::OkStatus();
}

// All plans of one model on so many devices.
absl::Status RunModel(const BenchFlags& flags, const std::string& name, int devices,
                      std::vector<Row>& rows) {
  const std::vector<std::string> words = absl::StrSplit(name, ':');
  int64_t batch = 0;
  if (words.size() > 1 && !absl::SimpleAtoi(words[1], &batch)) {
    return absl::InvalidArgumentError("wanted MODEL:BATCH, found " + name);
  }
  ASSIGN_OR_RETURN(const TrainingModel model, LoadTrainingModel({words[0], batch}));
  Bench bench{model.graph,
              {},
              (flags.steps + InterleavedMeasurement::kRound - 1) / InterleavedMeasurement::kRound};
  bench.request.machine.devices = devices;
  bench.request.machine.profile = flags.profile;
  bench.request.profile_seconds = flags.profile_time;
  bench.request.plan.options.evaluations = flags.evaluations;
  ASSIGN_OR_RETURN(MeasuredSearch search, SearchAndMeasure(model.graph, bench.request));
  std::vector<Row> own;
  for (const ExpertRow& expert : ExpertStrategies()) {
    const auto strategy = expert.make(model.graph, search.priced.machine->topology);
    if (strategy.ok()) own.push_back({name, expert.name, devices, *strategy, {}, {}});
  }
  own.push_back({name, "searched", devices, search.outcome.plan.strategy, {}, {}});
  RETURN_IF_ERROR(MakePlans(bench, own));
  RETURN_IF_ERROR(Profile(bench, own, false));
  RETURN_IF_ERROR(MakePlans(bench, own));
  RETURN_IF_ERROR(Measure(bench, own));
  RETURN_IF_ERROR(Predict(bench, own));
  for (Row& row : own) {
    const SourceCounts& sources = row.outcome.step.evaluation.sources;
    absl::PrintF("%-12s %d  %-20s %10.3f %10.3f  %+6.1f %%   %d/%d/%d/%d\n", row.model, row.devices,
                 row.name, row.predicted_ms(), row.measured_ms(), 100 * row.error(),
                 sources.measured, sources.unsteady, sources.interpolated, sources.roofline);
    std::fflush(stdout);
    if (flags.explain > 0) RETURN_IF_ERROR(Explain(model.graph, row, flags));
    rows.push_back(std::move(row));
  }
  return absl::OkStatus();
}

// Prints pairs that were measured in the other order, beyond the tolerance.
int CountInversions(const std::vector<Row>& rows) {
  int inversions = 0;
  for (const Row& fast : rows) {
    for (const Row& slow : rows) {
      if (fast.model != slow.model || fast.devices != slow.devices) continue;
      if (!(fast.predicted_ms() < slow.predicted_ms())) continue;
      if (fast.measured_ms() <= (1 + kTolerance) * slow.measured_ms()) continue;
      ++inversions;
      absl::PrintF(
          "inversion: %s, %d devices: %s was predicted faster than %s and ran %.1f %% slower\n",
          fast.model, fast.devices, fast.name, slow.name,
          100 * (fast.measured_ms() / slow.measured_ms() - 1));
    }
  }
  return inversions;
}

absl::StatusOr<bool> Run(const BenchFlags& flags) {
  std::vector<Row> rows;
  std::printf("%-12s %s %-20s %11s %10s %8s   %s\n", "model", "devices", "strategy", "predicted",
              "measured", "error", "tasks measured/interpolated/roofline");
  for (const std::string& model : std::vector<std::string>(absl::StrSplit(flags.models, ','))) {
    for (const std::string& word : std::vector<std::string>(absl::StrSplit(flags.devices, ','))) {
      int devices = 0;
      if (!absl::SimpleAtoi(word, &devices) || devices < 1) {
        return absl::InvalidArgumentError("wanted a number of devices, found " + word);
      }
      if (devices > static_cast<int>(std::thread::hardware_concurrency())) {
        absl::PrintF("%s on %d devices: more devices than cores, left out\n", model, devices);
        continue;
      }
      RETURN_IF_ERROR(RunModel(flags, model, devices, rows));
    }
  }
  if (rows.empty()) return absl::InvalidArgumentError("nothing was measured");
  std::vector<double> errors;
  for (const Row& row : rows) errors.push_back(std::abs(row.error()));
  std::sort(errors.begin(), errors.end());
  const double median = errors[errors.size() / 2];
  const int inversions = CountInversions(rows);
  absl::PrintF(
      "%d plans, median error %.1f %%, largest %.1f %%, %d order inversions beyond 10 %%\n",
      errors.size(), 100 * median, 100 * errors.back(), inversions);
  return median <= kTolerance && inversions == 0;
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) {
  partita::BenchFlags flags;
  CLI::App app("Predicted against measured step time");
  app.add_option("--models", flags.models, "MODEL:BATCH,...");
  app.add_option("--devices", flags.devices, "numbers of devices");
  app.add_option("--steps", flags.steps, "measured steps of each plan, a few in each round")
      ->check(CLI::Range(9, 10000));
  app.add_option("--explain", flags.explain, "list so many kinds of tasks for each plan");
  app.add_option("--evaluations", flags.evaluations, "of each search");
  app.add_option("--profile", flags.profile, "profile database");
  app.add_option("--profile_time", flags.profile_time, "seconds for each model and device number");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const absl::StatusOr<bool> good = partita::Run(flags);
  if (!good.ok()) {
    std::cerr << good.status().message() << "\n";
    return 5;
  }
  return *good ? 0 : 1;
}
