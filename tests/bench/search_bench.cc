// Searches in figures, for models and numbers of devices; above 64 devices the batch grows in
// proportion, on a machine that has as many. Each row is measured in a process of its own, with
// limits on its time and memory: what was not reached by then says so.
//
// Cost of a proposal, as a search sees it (tests/bench/proposal_chain.h): "early exit" stops at a
// threshold drawn before, "complete" goes to the end with empty caches. Beside it what FlexFlow's
// public simulator takes for a complete evaluation, on a faster core. Microseconds depend on the
// machine: `std::sort` of 2^20 random 64-bit integers is timed in the same run.
//
// Whole searches: processor seconds until they are within 1 % of the best known and to the end,
// speed-up over data parallelism and over the best expert, the lower bound and the gap to it. The
// best known steps stand in a file (tests/bench/best_known.h); with --update a better one, or a new
// one, is written there.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "graph/support/check.h"
#include "planner/lower_bound.h"
#include "tests/bench/best_known.h"
#include "tests/bench/limited_process.h"
#include "tests/bench/processor_time.h"
#include "tests/bench/search_row.h"
#include "tests/testing/ok.h"

namespace partita {
namespace {

struct BenchOptions {
  std::vector<std::string> models = {"alexnet", "inception_v3", "resnet101", "rnntc",
                                     "rnnlm",   "nmt",          "gpt"};
  std::vector<int> devices = {4, 8, 16, 32, 64, 256, 1024, 4096};
  std::string machine = "k80-16x4";
  std::string large_machine = "h100-512x8";  // above 64 devices
  int64_t batch = 0;                         // 0: that of FlexFlow's evaluation
  SearchRowOptions row;
  double memory_gb = 8;
  std::string best_known, output;
  bool update = false;
};

// The batch up to this number of devices is the model's, then it grows in proportion.
constexpr int kDevicesOfBatch = 64;

// Batches of FlexFlow's evaluation (MLSys 2019, section 8): 256 for AlexNet, 64 for the others.
BestKnownCase CaseOf(const std::string& model, int devices, const BenchOptions& options) {
  const int64_t own = model == "alexnet" ? 256 : 64;
  const int64_t batch = options.batch > 0 ? options.batch : own;
  const bool large = devices > kDevicesOfBatch;
  return {.machine = large ? options.large_machine : options.machine,
          .model = model,
          .devices = devices,
          .batch = batch * std::max(devices, kDevicesOfBatch) / kDevicesOfBatch};
}

// Microseconds of a complete evaluation in FlexFlow's public simulator; 0: not measured.
double FlexFlowMicroseconds(const std::string& model, int devices) {
  static const std::map<std::pair<std::string, int>, double> kMeasured = {
      {{"alexnet", 4}, 11},         {{"alexnet", 8}, 55},          {{"alexnet", 16}, 182},
      {{"alexnet", 32}, 771},       {{"alexnet", 64}, 3173},       {{"inception_v3", 4}, 143},
      {{"inception_v3", 16}, 1462}, {{"inception_v3", 64}, 19461}, {{"resnet101", 4}, 98},
      {{"resnet101", 16}, 936},     {{"resnet101", 64}, 12901},    {{"nmt_short", 4}, 69},
      {{"nmt_short", 16}, 577},     {{"nmt_short", 64}, 8633}};
  const auto it = kMeasured.find({model, devices});
  return it == kMeasured.end() ? 0 : it->second;
}

double MillisecondsOfSort() {
  std::mt19937_64 random(1);
  std::vector<uint64_t> values(size_t{1} << 20);
  for (uint64_t& value : values) value = random();
  const double begin = ProcessorSeconds();
  std::sort(values.begin(), values.end());
  return (ProcessorSeconds() - begin) * 1000;
}

std::string ProcessorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

// The figures of a case, by the names of tests/bench/search_row.h, as far as they were reached.
struct Row {
  BestKnownCase of;
  std::map<std::string, double> figures;
  std::string phase;
  ProcessEnd end;

  double Get(const std::string& name) const {
    const auto it = figures.find(name);
    return it == figures.end() ? 0 : it->second;
  }
  // The figure over `unit`; "-" where it was not reached.
  std::string Text(const std::string& name, const char* format, double unit = 1) const {
    char text[64];
    if (figures.count(name) == 0) return "-";
    std::snprintf(text, sizeof text, format, Get(name) / unit);
    return text;
  }
  std::string Ratio(const std::string& over, const std::string& under) const {
    if (Get(over) <= 0 || Get(under) <= 0) return "-";
    return absl::StrFormat("%.3f", Get(over) / Get(under));
  }
  std::string Gap() const {
    if (Get("bound_ns") <= 0 || Get("step_ns") <= 0) return "-";
    const Nanos step(static_cast<int64_t>(Get("step_ns")));
    const Nanos bound(static_cast<int64_t>(Get("bound_ns")));
    return absl::StrFormat("%.1f %%", 100 * GapOf(step, bound));
  }
  // What ended it, where that was not its own end.
  std::string Note(const BenchOptions& options) const {
    switch (end.kind) {
      case ProcessEnd::Kind::kOutOfTime:
        return absl::StrFormat("%.0f s over in: %s", options.row.seconds, phase);
      case ProcessEnd::Kind::kOutOfMemory:
        return absl::StrFormat("%.0f GB full in: %s", options.memory_gb, phase);
      case ProcessEnd::Kind::kFailed:
        return absl::StrCat("failed in: ", phase);
      case ProcessEnd::Kind::kDone:
        break;
    }
    if (phase.rfind("search: ", 0) == 0) return phase;
    if (figures.count("interrupted") != 0) return "search ended by time";
    return "";
  }
};

std::string NameOf(const Row& row) {
  const std::string pods =
      row.figures.count("pod_devices") == 0 ? "" : row.Text("pod_devices", ", pods of %.0f");
  return absl::StrCat("| ", row.of.model, ", ", row.of.batch, " | ", row.of.devices, pods, " | ");
}

std::string ProposalsRow(const Row& row) {
  const double flexflow = FlexFlowMicroseconds(row.of.model, row.of.devices);
  const double tasks = row.Get("tasks");
  return absl::StrCat(
      NameOf(row), row.Text("early_mean_us", "%.0f"), ", ", row.Text("early_median_us", "%.0f"),
      ", ", row.Text("early_p99_us", "%.0f"), " | ", row.Text("complete_mean_us", "%.0f"), ", ",
      row.Text("complete_median_us", "%.0f"), " | ",
      flexflow > 0 ? absl::StrFormat("%.0f", flexflow) : "-", " | ", row.Text("tasks", "%.0f"),
      ", ", row.Text("complete_mean_us", "%.0f", tasks / 1000), " | ",
      row.Text("accepted", "%.1f %%", 0.01), " | ", row.Text("bounded", "%.1f %%", 0.01), " | ",
      row.Text("cached", "%.1f %%", 0.01), " | ", row.Text("proposals", "%.0f"), " |\n");
}

std::string SearchRow(const Row& row, const BenchOptions& options) {
  return absl::StrCat(
      NameOf(row), row.Text("step_ns", "%.3f", 1e6), " | ", row.Text("starts_s", "%.1f"), ", ",
      row.Text("bound_s", "%.1f"), ", ", row.Text("near_s", "%.2f"), ", ",
      row.Text("end_s", "%.2f"), " | ", row.Text("near_seeds", "%.0f"), " of ",
      row.Text("seeds", "%.0f"), " | ", row.Ratio("step_ns", "known_ns"), " | ",
      row.Ratio("data_parallel_ns", "step_ns"), ", ", row.Ratio("expert_ns", "step_ns"), " | ",
      row.Text("bound_ns", "%.3f", 1e6), ", ", row.Gap(), " | ", row.end.peak_bytes >> 20, " | ",
      row.Note(options), " |\n");
}

std::string Tables(const std::vector<Row>& rows, const BenchOptions& options, double sort) {
  std::string text = absl::StrFormat(
      "%s, one core; std::sort of 2^20 integers %.1f ms. `%s` up to %d devices, `%s` above; a row "
      "has %.0f s and %.0f GB.\n\n",
      ProcessorName(), sort, options.machine, kDevicesOfBatch, options.large_machine,
      options.row.seconds, options.memory_gb);
  if (options.row.proposals > 0) {
    absl::StrAppend(&text,
                    "| model, batch | devices | early exit, us: mean, median, 99 % | complete, us: "
                    "mean, median | FlexFlow, us | tasks, ns each | accepted | bounded | cached | "
                    "proposals |\n|---|---|---|---|---|---|---|---|---|---|\n");
    for (const Row& row : rows) text += ProposalsRow(row);
    text += "\n";
  }
  absl::StrAppend(&text, "`", options.row.search, "`, ", options.row.evaluations,
                  " evaluations:\n\n| model, batch | devices | step, ms | s: experts, bound, "
                  "within 1 %, end | seeds within | over best known | over data parallelism, best "
                  "expert | bound, ms, gap | MB | |\n|---|---|---|---|---|---|---|---|---|---|\n");
  for (const Row& row : rows) text += SearchRow(row, options);
  return text;
}

Row Measure(const BestKnownCase& of, const BenchOptions& options, const BestKnown& known) {
  Row row{.of = of};
  const auto work = [&](const std::function<void(std::string)>& send) {
    MeasureSearchRow(
        of, options.row, known,
        [&](const std::string& name, double value) {
          send(absl::StrFormat("=%s %.17g", name, value));
        },
        [&](const std::string& phase) { send(phase); });
  };
  const auto line = [&](const std::string& text) {
    const size_t space = text.find(' ');
    double value = 0;
    if (text[0] == '=' && absl::SimpleAtod(text.substr(space + 1), &value)) {
      row.figures[text.substr(1, space - 1)] = value;
    } else {
      row.phase = text;
    }
  };
  row.end = RunLimited(
      {.seconds = options.row.seconds, .bytes = static_cast<int64_t>(options.memory_gb * 1e9)},
      work, line);
  return row;
}

// Whether something new is known.
bool Keep(const Row& row, const BenchOptions& options, BestKnown& known) {
  if (row.Get("step_ns") <= 0 || row.Get("base_ns") <= 0) return false;
  BestKnownStep found{
      .step = Nanos(static_cast<int64_t>(row.Get("step_ns"))),
      .base = Nanos(static_cast<int64_t>(row.Get("base_ns"))),
      .found_by = absl::StrFormat("%s, %d evaluations, seed %.0f", options.row.search,
                                  options.row.evaluations, row.Get("step_seed"))};
  if (row.figures.count("warm_ns") != 0 && row.figures.count("warm_index") != 0) {
    found.step = Nanos(static_cast<int64_t>(row.Get("warm_ns")));
    const auto index = static_cast<size_t>(row.Get("warm_index"));
    absl::StrAppend(&found.found_by, ", then ", options.row.warm_searches[index], ", ",
                    options.row.warm_evaluations, " evaluations");
  }
  return known.Add(row.of, found);
}

void Run(const BenchOptions& options) {
  BestKnown known = Ok(BestKnown::Read(options.best_known));
  const double sort = MillisecondsOfSort();
  std::vector<Row> rows;
  for (const std::string& model : options.models) {
    for (int devices : options.devices) {
      const BestKnownCase of = CaseOf(model, devices, options);
      std::fprintf(stderr, "%s on %d devices of %s, batch %ld\n", model.c_str(), devices,
                   of.machine.c_str(), of.batch);
      rows.push_back(Measure(of, options, known));
      const Row& row = rows.back();
      std::fprintf(stderr, "%s%s", ProposalsRow(row).c_str(), SearchRow(row, options).c_str());
      if (Keep(row, options, known) && options.update) {
        const absl::Status written = known.Write(options.best_known);
        CHECK(written.ok()) << written;
      }
      if (!options.output.empty()) std::ofstream(options.output) << Tables(rows, options, sort);
    }
  }
  std::printf("%s", Tables(rows, options, sort).c_str());
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) {
  partita::BenchOptions options;
  CLI::App app{"cost of a search's proposals, and of whole searches"};
  app.add_option("--models", options.models)->delimiter(',')->capture_default_str();
  app.add_option("--devices", options.devices)->delimiter(',')->capture_default_str();
  app.add_option("--machine", options.machine, "up to 64 devices")->capture_default_str();
  app.add_option("--large_machine", options.large_machine, "above")->capture_default_str();
  app.add_option("--batch", options.batch, "up to 64 devices, then in proportion; 0: as FlexFlow");
  app.add_option("--proposals", options.row.proposals, "0: none")->capture_default_str();
  app.add_option("--whole_devices", options.row.whole_devices, "more are searched by pods")
      ->capture_default_str();
  app.add_option("--warm_up", options.row.warm_up, "proposals")->capture_default_str();
  app.add_option("--beta", options.row.beta)->capture_default_str();
  app.add_option("--search", options.row.search)->capture_default_str();
  app.add_option("--evaluations", options.row.evaluations, "of a search; 0: no search")
      ->capture_default_str();
  app.add_option("--seed", options.row.seed, "of the first search")->capture_default_str();
  app.add_option("--seeds", options.row.seeds, "searches")->capture_default_str();
  app.add_option("--warm_searches", options.row.warm_searches,
                 "searches that follow from the best found, for what is best known")
      ->delimiter(',');
  app.add_option("--warm_evaluations", options.row.warm_evaluations, "of each")
      ->capture_default_str();
  app.add_option("--row_seconds", options.row.seconds, "of each row")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--row_gb", options.memory_gb, "memory of each row")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--best_known", options.best_known, "file of the best known steps");
  app.add_flag("--update", options.update, "write better ones, and new ones, to it")
      ->needs("--best_known");
  app.add_option("--output", options.output, "file of the tables, written after each row");
  CLI11_PARSE(app, argc, argv);
  partita::Run(options);
}
