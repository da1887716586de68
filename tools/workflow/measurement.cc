#include "tools/workflow/measurement.h"

#include <algorithm>

#include "graph/support/fingerprint.h"
#include "graph/support/philox.h"
#include "graph/support/status_macros.h"
#include "graph/task/planned_step.h"
#include "runtime/backend/backends.h"
#include "runtime/train/executor_setup.h"
#include "runtime/train/training_state.h"

namespace partita {

absl::StatusOr<std::unique_ptr<MeasuredPlan>> MeasuredPlan::Open(const Graph& graph,
                                                                 const Plan& plan,
                                                                 bool record_timeline) {
  std::unique_ptr<MeasuredPlan> measured(new MeasuredPlan(graph));
  ASSIGN_OR_RETURN(measured->backend_, MakeBackend(LocalBackendName()));
  ExecutorSetup setup;
  setup.backend = measured->backend_.get();
  setup.devices = DeviceSpecsOf(plan.topology);
  setup.hang_seconds = 300;
  setup.record_timeline = record_timeline;
  ASSIGN_OR_RETURN(PlannedStep step, BuildPlannedStep(graph, plan));
  ASSIGN_OR_RETURN(measured->executor_, OpenExecutor(graph, std::move(step), setup));
  ASSIGN_OR_RETURN(const TrainingState state, InitialState(graph, 1));
  RETURN_IF_ERROR(WriteValues(graph, state, *measured->executor_));
  measured->input_.resize(static_cast<size_t>(Volume(graph.tensor(graph.input()).type.shape)));
  for (size_t i = 0; i < measured->input_.size(); ++i) {
    measured->input_[i] = 2 * UnitFloat(static_cast<uint32_t>(Mix64(i))) - 1;
  }
  if (graph.labels() != kNoTensor) {
    const Shape& logits = graph.tensor(graph.logits()).type.shape;
    const auto rows = static_cast<size_t>(Volume(graph.tensor(graph.labels()).type.shape));
    for (size_t i = 0; i < rows; ++i) {
      measured->labels_.push_back(static_cast<int32_t>(i % static_cast<size_t>(logits.back())));
    }
  }
  return measured;
}

absl::StatusOr<StepResult> MeasuredPlan::Step() {
  StepArguments arguments;
  arguments.step = step_++;
  arguments.learning_rate = 1e-4;
  return executor_->Step({DType::kFloat32, input_.data()}, {DType::kInt32, labels_.data()},
                         arguments);
}

Bytes MeasuredPlan::LargestAllocation() const {
  Bytes largest;
  for (int d = 0; d < executor_->program().tasks.devices(); ++d) {
    largest = std::max(largest, executor_->AllocatedBytes(DeviceId(d)));
  }
  return largest;
}

namespace {

bool IsSet(const std::atomic<bool>* stop) { return stop != nullptr && stop->load(); }

// A plan's turn: a step that finds caches as the plan before left them and does not count, then
// `steps` that do. Ends early where `stop` becomes true.
absl::Status TakeTurn(MeasuredPlan& plan, int steps, const std::atomic<bool>* stop,
                      std::vector<int64_t>& times) {
  for (int k = -1; k < steps && !IsSet(stop); ++k) {
    ASSIGN_OR_RETURN(const StepResult step, plan.Step());
    if (k >= 0) times.push_back(step.wall_ns);
  }
  return absl::OkStatus();
}

Nanos MedianOf(std::vector<int64_t> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return Nanos(*middle);
}

}  // namespace

absl::StatusOr<std::vector<Nanos>> MeasureInterleaved(const Graph& graph,
                                                      const std::vector<Plan>& plans, int rounds,
                                                      const std::atomic<bool>* stop) {
  constexpr int kTurn = 5;  // counted steps
  std::vector<std::vector<int64_t>> times(plans.size());
  bool has_teams = false;
  for (const Plan& plan : plans) {
    for (const Device& device : plan.topology.devices()) has_teams |= device.threads > 1;
  }
  std::vector<std::unique_ptr<MeasuredPlan>> open(plans.size());
  for (int done = 0; done < rounds; done += kTurn) {
    for (size_t p = 0; p < plans.size() && !IsSet(stop); ++p) {
      if (open[p] == nullptr) {
        ASSIGN_OR_RETURN(open[p], MeasuredPlan::Open(graph, plans[p]));
        RETURN_IF_ERROR(open[p]->Step().status());  // touches its memory for the first time
      }
      RETURN_IF_ERROR(TakeTurn(*open[p], std::min(kTurn, rounds - done), stop, times[p]));
      if (has_teams) open[p] = nullptr;
    }
  }
  std::vector<Nanos> medians;
  for (std::vector<int64_t>& list : times) {
    if (list.empty()) {
      return absl::CancelledError("interrupted before every plan was measured once");
    }
    medians.push_back(MedianOf(std::move(list)));
  }
  return medians;
}

}  // namespace partita
