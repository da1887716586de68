#include "tools/workflow/measurement.h"

#include <algorithm>
#include <utility>

#include "cost_model/profile.h"
#include "graph/partition/planned_step.h"
#include "graph/support/fingerprint.h"
#include "graph/support/philox.h"
#include "graph/support/status_macros.h"
#include "runtime/executor/executor_setup.h"

namespace partita {
namespace {

// From this size on a step finds the same data in caches as when it runs uncontended: its own data
// passed through them meanwhile.
constexpr int64_t kLongStep = 100'000'000;  // ns

}  // namespace

absl::StatusOr<std::unique_ptr<MeasuredPlan>> MeasuredPlan::Open(const Graph& graph,
                                                                 const Plan& plan,
                                                                 const TrainingState& start,
                                                                 const MeasuringOptions& options) {
  std::unique_ptr<MeasuredPlan> measured(new MeasuredPlan());
  ExecutorSetup setup;
  ASSIGN_OR_RETURN(setup.devices, DevicesOf(plan.topology, options.backends));
  setup.communicator = CommunicatorBetween(setup.devices);
  setup.hang_seconds = 300;
  setup.record_timeline = options.record_timeline;
  const std::vector<Precision> precisions = PrecisionsOn(setup.devices, options.precision);
  ASSIGN_OR_RETURN(PlannedStep step,
                   BuildPlannedStep(graph, plan, precisions, options.nondeterministic));
  ASSIGN_OR_RETURN(measured->opened_,
                   KeptAlgorithms::Open(graph, std::move(step), setup, options.profile));
  RETURN_IF_ERROR(WriteValues(graph, start, *measured->opened_.executor));
  const Executor& executor = *measured->opened_.executor;
  for (int k = 0; k < (executor.Stages() ? 2 : 1); ++k) {
    Fill(graph, measured->batches_.emplace_back(executor.batch_memory()));
  }
  // A step that is replayed was made once before, and recorded then, by the address of its batch.
  const size_t first_steps = executor.CanReplay().ok() ? 2 * measured->batches_.size() : 0;
  for (size_t k = 0; k < first_steps; ++k) RETURN_IF_ERROR(measured->Step().status());
  return measured;
}

void MeasuredPlan::Fill(const Graph& graph, HostBatch& batch) {
  const TensorType input = graph.WholeType(TensorRole::kSamples);
  const auto elements = static_cast<uint64_t>(Volume(input.shape));
  if (input.dtype == DType::kInt32) {
    const auto limit =
        static_cast<uint64_t>(graph.IndexLimitOf(graph.tensors(TensorRole::kSamples)[0]));
    batch.integers.reserve(elements);
    for (uint64_t i = 0; i < elements; ++i) {
      batch.integers.push_back(static_cast<int32_t>(Mix64(i) % limit));
    }
  } else {
    batch.samples.reserve(elements);
    for (uint64_t i = 0; i < elements; ++i) {
      batch.samples.push_back(2 * UnitFloat(static_cast<uint32_t>(Mix64(i))) - 1);
    }
  }
  if (graph.tensors(TensorRole::kLabels).empty()) return;
  const int64_t classes = graph.WholeType(TensorRole::kLogits).shape.back();
  const int64_t rows = Volume(graph.WholeType(TensorRole::kLabels).shape);
  for (int64_t i = 0; i < rows; ++i) batch.labels.push_back(static_cast<int32_t>(i % classes));
}

absl::StatusOr<StepResult> MeasuredPlan::Step() {
  const auto batch_of = [this](int64_t step) -> const HostBatch& {
    return batches_[static_cast<size_t>(step) % batches_.size()];
  };
  const HostBatch& batch = batch_of(step_);
  if (batches_.size() > 1) {
    const HostBatch& next = batch_of(step_ + 1);
    opened_.executor->Stage(next.Samples(), next.Labels());
  }
  StepArguments arguments;
  arguments.step = step_++;
  arguments.learning_rate = 1e-4;
  return opened_.executor->Step(batch.Samples(), batch.Labels(), arguments);
}

Bytes MeasuredPlan::LargestAllocation() const {
  Bytes largest;
  for (int d = 0; d < tasks().devices(); ++d) {
    largest = std::max(largest, Allocated(DeviceId(d)));
  }
  return largest;
}

InterleavedMeasurement::InterleavedMeasurement(const Graph& graph, std::vector<Plan> plans,
                                               MeasuringOptions options,
                                               const std::atomic<bool>* stop)
    : graph_(graph), options_(std::move(options)), stop_(stop) {
  for (Plan& plan : plans) {
    for (const Device& device : plan.topology.devices()) has_teams_ |= device.threads > 1;
    entries_.push_back({.plan = std::move(plan)});
  }
}

namespace {

// Of all its devices, as predicted.
int64_t PeakOf(const Plan& plan) {
  int64_t bytes = 0;
  if (!plan.prediction.has_value()) return bytes;
  for (Bytes peak : plan.prediction->peak) bytes += peak.value();
  return bytes;
}

}  // namespace

void InterleavedMeasurement::MakeRoomFor(const Plan& plan) {
  int64_t room = 0, taken = 0;
  for (const Device& device : plan.topology.devices()) room += device.memory.value();
  for (const Entry& entry : entries_) taken += entry.open == nullptr ? 0 : PeakOf(entry.plan);
  if (taken + PeakOf(plan) <= room) return;
  for (Entry& entry : entries_) entry.open = nullptr;
}

absl::Status InterleavedMeasurement::Step(Entry& entry, bool counts) {
  ASSIGN_OR_RETURN(const StepResult step, entry.open->Step());
  entry.last_ns = step.wall_ns;
  if (!counts) return absl::OkStatus();
  entry.times.push_back(step.wall_ns);
  if (options_.on_step) options_.on_step();
  return absl::OkStatus();
}

absl::Status InterleavedMeasurement::TakeTurn(Entry& entry, int& left) {
  if (entry.open == nullptr) {
    if (!start_.has_value()) {
      ASSIGN_OR_RETURN(start_, InitialState(graph_, 1));
    }
    MakeRoomFor(entry.plan);
    ASSIGN_OR_RETURN(entry.open, MeasuredPlan::Open(graph_, entry.plan, *start_, options_));
    if (!entry.open->note().empty()) note_ = entry.open->note();
    RETURN_IF_ERROR(Step(entry, false));  // touches its memory for the first time
  }
  const bool one_by_one = !has_teams_ && entry.last_ns >= kLongStep;
  if (!one_by_one) RETURN_IF_ERROR(Step(entry, false));
  const int steps = one_by_one ? 1 : left;
  for (int k = 0; k < steps && !IsOver(); ++k) RETURN_IF_ERROR(Step(entry, true));
  left -= steps;
  if (has_teams_) entry.open = nullptr;
  return absl::OkStatus();
}

void InterleavedMeasurement::Drop(size_t plan) {
  entries_[plan].is_dropped = true;
  entries_[plan].open = nullptr;
}

int InterleavedMeasurement::StepsOfRound() const {
  const auto is_new = [](const Entry& entry) { return !entry.is_dropped && entry.times.empty(); };
  const auto is_long = [](const Entry& entry) { return entry.last_ns >= kLongStep; };
  const bool takes_one = std::any_of(entries_.begin(), entries_.end(), is_new) ||
                         std::any_of(entries_.begin(), entries_.end(), is_long);
  return takes_one ? 1 : kRound;
}

absl::Status InterleavedMeasurement::Round(int steps) {
  std::vector<size_t> before;
  for (const Entry& entry : entries_) before.push_back(entry.times.size());
  RETURN_IF_ERROR(TakeTurns(steps));
  for (size_t k = 0; k < entries_.size(); ++k) {
    const auto made = std::span<const int64_t>(entries_[k].times).subspan(before[k]);
    if (!made.empty()) entries_[k].rounds.push_back(TimingOf(made).median_ns);
  }
  return absl::OkStatus();
}

absl::Status InterleavedMeasurement::TakeTurns(int steps) {
  std::vector<int> left(entries_.size(), steps);
  for (size_t k = 0; k < entries_.size(); ++k) left[k] = entries_[k].is_dropped ? 0 : steps;
  while (std::any_of(left.begin(), left.end(), [](int n) { return n > 0; })) {
    for (size_t k = 0; k < entries_.size(); ++k) {
      if (IsOver()) return absl::OkStatus();
      if (left[k] > 0) RETURN_IF_ERROR(TakeTurn(entries_[k], left[k]));
    }
  }
  return absl::OkStatus();
}

absl::Status InterleavedMeasurement::Rounds(int steps) {
  for (int of_round = 0; steps > 0; steps -= of_round) {
    of_round = std::min(StepsOfRound(), steps);
    RETURN_IF_ERROR(Round(of_round));
  }
  return absl::OkStatus();
}

std::vector<std::optional<Nanos>> InterleavedMeasurement::Medians() const {
  std::vector<std::optional<Nanos>> medians;
  for (const Entry& entry : entries_) {
    medians.emplace_back();
    if (!entry.times.empty()) medians.back() = Nanos(TimingOf(entry.times).median_ns);
  }
  return medians;
}

}  // namespace partita
