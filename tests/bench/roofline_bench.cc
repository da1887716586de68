// The roofline of a training step, kernel by kernel, as tables in Markdown: what the peaks of a
// device's data sheet leave each kernel, beside what the planner reckons with and, where a report of
// the GPU suite has it, what was measured. Nothing runs on a GPU here. roofline.md is what it
// printed with its own settings.
//
//   roofline_bench [--model alexnet] [--machine h200-1x8] [--batches 32,64] [--precisions tf32]
//                  [--report tests/gpu_reports/h200-2026-11-26.json]
#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "cost_model/machines.h"
#include "graph/training/training_graph.h"
#include "graph/zoo/models.h"
#include "tests/bench/roofline.h"
#include "tests/testing/ok.h"

namespace partita {
namespace {

struct BenchOptions {
  std::string model = "alexnet", machine = "h200-1x8", report;
  std::vector<int64_t> batches = {32, 64, 128, 256, 512};
  std::vector<std::string> precisions = {"float32", "tf32", "bfloat16"};
  int furthest = 8;
};

std::vector<Precision> PrecisionsOf(const BenchOptions& options) {
  std::vector<Precision> precisions;
  for (const std::string& name : options.precisions) {
    const auto precision = PrecisionNamed(name);
    if (!precision.has_value()) {
      std::fprintf(stderr, "unknown precision '%s': float32, tf32, float16 or bfloat16\n",
                   name.c_str());
      std::exit(2);
    }
    precisions.push_back(*precision);
  }
  return precisions;
}

std::optional<MeasuredStep> Measured(const BenchOptions& options, int64_t batch,
                                     Precision precision) {
  if (options.report.empty()) return std::nullopt;
  auto step = ReadMeasuredStep(options.report, batch, precision);
  if (step.ok()) return *std::move(step);
  if (absl::IsNotFound(step.status())) return std::nullopt;
  std::fprintf(stderr, "%s\n", step.status().ToString().c_str());
  std::exit(1);
}

void PrintAssumptions(const DeviceClass& device, const std::vector<Precision>& precisions) {
  std::printf("%s: %.1f TB/s of memory; TFLOP/s of products:", device.description.c_str(),
              device.memory_bytes_per_second * 1e-12);
  for (const Precision precision : precisions) {
    std::printf(" %.1f in %s,", device.MatrixFlops(precision) * 1e-12, RowOf(precision).name);
  }
  std::printf(" %.1f of other arithmetic; %.1f us between kernels for the planner.\n\n",
              device.other_flops * 1e-12, device.kernel_overhead_ns * 1e-3);
}

void PrintSum(int64_t batch, const StepRoofline& step) {
  const RooflineSum sum = SumOf(step.rows);
  std::printf("| %lld | %s | %lld | %.1f | %.2f | %.2f | %.0f %% | %.2f | %.0f |",
              static_cast<long long>(batch), RowOf(step.precision).name,
              static_cast<long long>(sum.launches), static_cast<double>(sum.flops) * 1e-9,
              static_cast<double>(sum.bytes) * 1e-9, sum.roof_us * 1e-3,
              100 * sum.memory_bound_us / sum.roof_us, sum.priced_us * 1e-3,
              1e6 * static_cast<double>(batch) / sum.roof_us);
  if (step.measured.has_value()) {
    std::printf(" %.2f | %.2f |\n", step.measured->step_us * 1e-3,
                step.measured->step_us / sum.roof_us);
  } else {
    std::printf(" - | - |\n");
  }
}

void Print(const BenchOptions& options) {
  const Machine machine = Ok(FindMachine(options.machine, 1));
  const std::vector<Precision> precisions = PrecisionsOf(options);
  PrintAssumptions(machine.ClassOf(DeviceId(0)), precisions);
  std::string tables;
  std::printf(
      "| batch | products in | launches | GFLOP | GB | roof, ms | of it bound by memory | planner, "
      "ms "
      "| images/s at the roof | measured, ms | measured / roof |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (const int64_t batch : options.batches) {
    const Graph graph = Ok(BuildTrainingGraph(Ok(MakeZooModel(options.model, batch)), {}));
    std::vector<StepRoofline> steps;
    for (const Precision precision : precisions) {
      steps.push_back({precision, Ok(RooflineOfStep(graph, machine, precision)),
                       Measured(options, batch, precision)});
      PrintSum(batch, steps.back());
    }
    tables += "\n## Batch " + std::to_string(batch) + "\n\n" + RooflineTable(steps);
    for (const StepRoofline& step : steps) {
      if (!step.measured.has_value()) continue;
      tables += std::string("\nFurthest from the roof in ") + RowOf(step.precision).name + ":\n\n";
      tables += FurthestFromTheRoof(step, static_cast<size_t>(options.furthest));
    }
  }
  std::printf("%s", tables.c_str());
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) {
  using namespace partita;
  BenchOptions options;
  CLI::App app{"the roofline of a training step, kernel by kernel"};
  app.add_option("--model", options.model, "of the zoo");
  app.add_option("--machine", options.machine, "of which the first device counts");
  app.add_option("--batches", options.batches)->delimiter(',');
  app.add_option("--precisions", options.precisions)->delimiter(',');
  app.add_option("--report", options.report, "of the GPU suite, with measured tasks");
  app.add_option("--furthest", options.furthest, "kernels to name that are furthest from the roof");
  CLI11_PARSE(app, argc, argv);
  Print(options);
}
