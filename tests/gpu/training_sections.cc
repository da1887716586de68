// Sections that time training on one device.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "graph/support/status_macros.h"
#include "runtime/backend/backends.h"
#include "tests/gpu/one_device.h"
#include "tests/gpu/sections.h"
#include "tools/workflow/training_model.h"

namespace partita {
namespace {

constexpr int64_t kLenetBatch = 64;
constexpr double kSameLoss = 1e-3;     // relative, of the first steps in float32
constexpr double kMostGaps = 0.03;     // of an AlexNet step
constexpr char kCpuBackend[] = "cpu";  // that lenet is compared with

Json Described(const Graph& graph, const StepTimes& times) {
  Json algorithms = Json::array();
  for (const AlgorithmStore::Entry& entry : times.algorithms) {
    algorithms.push_back({{"work", entry.work}, {"choice", entry.choice}});
  }
  Json tasks = Json::array();
  for (const TaskTime& task : times.tasks) tasks.push_back({task.name, task.us});
  return {{"batch", graph.batch()},
          {"step_ms", times.median_ms},
          {"least_step_ms", times.least_ms},
          {"images_per_second", 1e3 * static_cast<double>(graph.batch()) / times.median_ms},
          {"allocated_bytes", times.allocated_bytes},
          {"first_losses", times.losses},
          {"steps_replayed", times.replayed},
          {"not_replayed", times.not_replayed},
          {"gaps_share", GapsWithoutRecording(times.share, 1e6 * times.median_ms)},
          {"with_timeline",
           {{"busy_share", times.share.busy},
            {"gaps_share", times.share.gaps},
            {"longest_gap_us", static_cast<double>(times.share.longest_gap_ns) / 1e3},
            {"pieces_of_work", times.share.pieces},
            {"task_us", std::move(tasks)}}},
          {"algorithms", std::move(algorithms)}};
}

bool SameLosses(const StepTimes& a, const StepTimes& b) {
  for (size_t k = 0; k < std::min(a.losses.size(), b.losses.size()); ++k) {
    if (!(std::abs(a.losses[k] - b.losses[k]) <= kSameLoss * std::abs(b.losses[k]))) return false;
  }
  return true;
}

TimingRequest RequestOf(const SuiteOptions& options, const std::string& backend,
                        Precision precision) {
  return {{backend, precision}, options.warm_up, options.steps};
}

// Reports what a replayed step takes when the host enqueues it piece by piece. Whether that gives
// the same losses, bit for bit.
absl::StatusOr<bool> CompareEnqueued(const Graph& graph, TimingRequest request,
                                     const StepTimes& replayed, Json& report) {
  request.device.replay = false;
  ASSIGN_OR_RETURN(const StepTimes times, TimeSteps(graph, request));
  report["enqueued_step_ms"] = times.median_ms;
  return times.losses == replayed.losses;
}

}  // namespace

absl::StatusOr<SectionFindings> CompareLenet(const SuiteOptions& options) {
  RETURN_IF_ERROR(MakeBackend(options.backend).status());
  RETURN_IF_ERROR(MakeBackend(kCpuBackend).status());
  ASSIGN_OR_RETURN(const TrainingModel model, LoadTrainingModel({"lenet", kLenetBatch}));
  constexpr Precision float32 = Precision::kFloat32;
  ASSIGN_OR_RETURN(const StepTimes here,
                   TimeSteps(model.graph, RequestOf(options, options.backend, float32)));
  ASSIGN_OR_RETURN(const StepTimes cpu,
                   TimeSteps(model.graph, RequestOf(options, kCpuBackend, float32)));
  SectionFindings findings;
  findings.details = {{options.backend, Described(model.graph, here)},
                      {absl::StrCat("all cores, ", kCpuBackend), Described(model.graph, cpu)},
                      {"times_as_fast", cpu.median_ms / here.median_ms}};
  if (!SameLosses(here, cpu)) findings.failures.push_back("losses of the first steps differ");
  return findings;
}

absl::StatusOr<SectionFindings> TimeAlexNet(const SuiteOptions& options) {
  RETURN_IF_ERROR(MakeBackend(options.backend).status());
  SectionFindings findings;
  findings.details["runs"] = Json::array();
  for (const int64_t batch : options.batches) {
    ASSIGN_OR_RETURN(const TrainingModel model, LoadTrainingModel({"alexnet", batch}));
    for (const PrecisionRow& row : PrecisionsOf(options)) {
      const std::string run = absl::StrCat("batch ", batch, ", ", row.name);
      findings.details["running"] = run;  // what a hang or a crash was in
      options.so_far(findings);
      AlgorithmStore algorithms;
      TimingRequest request = RequestOf(options, options.backend, row.precision);
      request.device.algorithms = &algorithms;
      const auto times = TimeSteps(model.graph, request);
      if (!times.ok()) {
        findings.failures.push_back(absl::StrCat(run, ": ", times.status().ToString()));
        continue;
      }
      Json report = Described(model.graph, *times);
      report["precision"] = row.name;
      if (times->replayed > 0) {
        ASSIGN_OR_RETURN(const bool equal, CompareEnqueued(model.graph, request, *times, report));
        if (!equal) findings.failures.push_back(run + ": a replayed step has another loss");
      }
      const double gaps = report["gaps_share"].get<double>();
      findings.details["runs"].push_back(std::move(report));
      if (gaps > kMostGaps) {
        findings.failures.push_back(absl::StrFormat(
            "%s: nothing runs in %.1f %% of the step between its first and last work", run,
            100 * gaps));
      }
    }
  }
  findings.details.erase("running");
  return findings;
}

}  // namespace partita
