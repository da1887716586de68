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
                                                                 const Plan& plan) {
  std::unique_ptr<MeasuredPlan> measured(new MeasuredPlan(graph));
  ASSIGN_OR_RETURN(measured->backend_, MakeBackend(LocalBackendName()));
  ExecutorSetup setup;
  setup.backend = measured->backend_.get();
  setup.devices = DeviceSpecsOf(plan.topology);
  setup.hang_seconds = 300;
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

absl::StatusOr<int64_t> MeasuredPlan::Step() {
  StepArguments arguments;
  arguments.step = step_++;
  arguments.learning_rate = 1e-4;
  ASSIGN_OR_RETURN(const StepResult result,
                   executor_->Step({DType::kFloat32, input_.data()},
                                   {DType::kInt32, labels_.data()}, arguments));
  return result.wall_ns;
}

Bytes MeasuredPlan::LargestAllocation() const {
  Bytes largest;
  for (int d = 0; d < executor_->program().tasks.devices(); ++d) {
    largest = std::max(largest, executor_->AllocatedBytes(DeviceId(d)));
  }
  return largest;
}

absl::StatusOr<std::vector<Nanos>> MeasureInterleaved(const Graph& graph,
                                                      const std::vector<Plan>& plans, int rounds,
                                                      const std::atomic<bool>* stop) {
  std::vector<std::unique_ptr<MeasuredPlan>> open;
  for (const Plan& plan : plans) {
    ASSIGN_OR_RETURN(auto measured, MeasuredPlan::Open(graph, plan));
    open.push_back(std::move(measured));
  }
  std::vector<std::vector<int64_t>> times(plans.size());
  for (int round = -1; round < rounds; ++round) {
    if (stop != nullptr && stop->load()) {
      if (round > 0) break;
      return absl::CancelledError("interrupted before every plan was measured once");
    }
    for (size_t p = 0; p < open.size(); ++p) {
      ASSIGN_OR_RETURN(const int64_t ns, open[p]->Step());
      if (round >= 0) times[p].push_back(ns);
    }
  }
  std::vector<Nanos> medians;
  for (auto& list : times) {
    std::nth_element(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(list.size() / 2),
                     list.end());
    medians.push_back(Nanos(list[list.size() / 2]));
  }
  return medians;
}

}  // namespace partita
