#include "runtime/train/periodic_checkpoints.h"

#include <cmath>
#include <utility>

#include "graph/support/clock.h"
#include "graph/support/exceptions.h"
#include "graph/support/status_macros.h"
#include "runtime/train/checkpoint_family.h"

namespace partita {
namespace {

constexpr char kAccuracy[] = "evaluation accuracy";
constexpr char kLoss[] = "mean training loss";

// A measure of evaluations goes before one of training.
bool IsBetter(const CheckpointMetric& a, const CheckpointMetric& b) {
  if (std::isnan(a.value)) return false;
  if (a.name != b.name) return a.name == kAccuracy;
  return a.name == kAccuracy ? a.value > b.value : a.value < b.value;
}

}  // namespace

// One save. Only the thread uses it until `done`.
struct PeriodicCheckpoints::Job {
  TrainingState state;
  int64_t step = 0;
  bool step_is_due = false;
  std::optional<CheckpointMetric> best;
  std::optional<CheckpointMetric> best_before;
  std::vector<CheckpointReport> reports;
  absl::Status error;  // that kept it from any of them
  std::atomic<bool> done = false;
};

PeriodicCheckpoints::PeriodicCheckpoints(const Graph& graph, Options options)
    : graph_(graph),
      options_(std::move(options)),
      job_(std::make_unique<Job>()),
      saved_ns_(SteadyNow()),
      saved_step_(options_.start),
      best_(options_.best) {}

PeriodicCheckpoints::~PeriodicCheckpoints() { thread_.Join(); }

void PeriodicCheckpoints::AddLoss(double loss) {
  losses_ += loss;
  ++steps_;
}

void PeriodicCheckpoints::AddEvaluation(const EvaluationResult& result) {
  if (thread_.joinable() && job_->best.has_value()) Finish();  // to know which is the best
  Offer({kAccuracy, result.accuracy});
}

void PeriodicCheckpoints::Offer(const CheckpointMetric& metric) {
  if (!best_.has_value() ? !std::isnan(metric.value) : IsBetter(metric, *best_)) offered_ = metric;
}

bool PeriodicCheckpoints::StepIsDue(int64_t step) const {
  if (step == saved_step_) return false;
  const CheckpointSchedule& schedule = options_.schedule;
  if (schedule.every_steps > 0) return step % schedule.every_steps == 0;
  const double seconds = static_cast<double>(SteadyNow() - saved_ns_) / 1e9;
  return !thread_.joinable() && seconds >= schedule.every_seconds;
}

bool PeriodicCheckpoints::Due(int64_t step) {
  if (thread_.joinable() && job_->done) Finish();
  return offered_.has_value() || StepIsDue(step);
}

void PeriodicCheckpoints::Save(const TrainingState& state) {
  const bool step_is_due = StepIsDue(state.step);
  Finish();
  if (step_is_due && !options_.evaluates && steps_ > 0) {
    Offer({kLoss, losses_ / static_cast<double>(steps_)});
  }
  if (step_is_due) {
    saved_step_ = state.step;
    saved_ns_ = SteadyNow();
    losses_ = 0;
    steps_ = 0;
  }
  const absl::Status begun = Begin(state, step_is_due);
  if (begun.ok()) return;
  job_->error = begun;
  Conclude();
}

absl::Status PeriodicCheckpoints::Begin(const TrainingState& state, bool step_is_due) {
  Job& job = *job_;
  job.step = state.step;
  job.step_is_due = step_is_due;
  job.best = std::exchange(offered_, std::nullopt);
  job.best_before = best_;
  job.reports.clear();
  job.error = absl::OkStatus();
  job.done = false;
  if (job.best.has_value()) best_ = job.best;
  RETURN_IF_ERROR(Catching([&] { job.state = state; }));
  ASSIGN_OR_RETURN(thread_, Thread::Start(
                                "writing a checkpoint",
                                [this] {
                                  Run(graph_, options_, *job_);
                                  job_->done = true;
                                },
                                [this](const absl::Status& status) {
                                  job_->error = status;
                                  job_->done = true;
                                }));
  return absl::OkStatus();
}

void PeriodicCheckpoints::Run(const Graph& graph, const Options& options, Job& job) {
  const std::string& name = options.schedule.name;
  const auto write = [&](const std::string& path, const std::optional<CheckpointMetric>& metric) {
    CheckpointReport report{.path = path, .step = job.step, .best = metric, .status = {}};
    report.status = options.write(path, graph, job.state, metric);
    job.reports.push_back(std::move(report));
    return job.reports.back().status.ok();
  };
  if (job.step_is_due && write(StepCheckpointPath(name, job.step), std::nullopt)) {
    absl::Status removed = RemoveOldCheckpoints(name, job.step, options.schedule.keep);
    if (!removed.ok()) job.reports.push_back({.path = name, .step = job.step, .status = removed});
  }
  if (job.best.has_value()) write(BestCheckpointPath(name), job.best);
}

void PeriodicCheckpoints::Finish() {
  if (!thread_.joinable()) return;
  const int64_t begin = SteadyNow();
  thread_.Join();
  waited_ns_ += SteadyNow() - begin;
  Conclude();
}

void PeriodicCheckpoints::Conclude() {
  const Job& job = *job_;
  bool best_is_written = false;
  for (const CheckpointReport& report : job.reports) {
    ++(report.status.ok() ? written_ : failed_);
    if (report.best.has_value() && report.status.ok()) {
      best_is_written = true;
      best_written_ = report;
    }
    options_.on_report(report);
  }
  if (!job.error.ok()) {
    ++failed_;
    options_.on_report({.path = options_.schedule.name, .step = job.step, .status = job.error});
  }
  if (!best_is_written) best_ = job.best_before;
}

}  // namespace partita
