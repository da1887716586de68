#include "planner/evaluator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"
#include "graph/task/partition.h"
#include "graph/task/planned_step.h"
#include "planner/contention.h"

namespace partita {
namespace {

// Durations whose sum fits, however slow a machine is said to be.
std::vector<Nanos> BoundedDurations(const std::vector<TaskCost>& costs) {
  const Nanos longest((int64_t{1} << 62) / (static_cast<int64_t>(costs.size()) + 1));
  std::vector<Nanos> durations = DurationsOf(costs);
  for (Nanos& duration : durations) duration = std::min(duration, longest);
  return durations;
}

// Busy time of lanes, and the time in which neither lane of a device is busy. Tasks come in the
// order of their starts on each lane, and so do they on both lanes together.
std::vector<DeviceUse> UseOf(const EvaluatedStep& step) {
  const auto devices = static_cast<size_t>(step.tasks.devices());
  std::vector<DeviceUse> use(devices);
  std::vector<TaskId> by_start = step.order;
  std::stable_sort(by_start.begin(), by_start.end(), [&](TaskId a, TaskId b) {
    return step.schedule.start[a.index()] < step.schedule.start[b.index()];
  });
  std::vector<Nanos> covered(devices);  // the end of what has been seen of each device
  for (TaskId id : by_start) {
    const Task& task = step.tasks.task(id);
    const Nanos start = step.schedule.start[id.index()], end = step.schedule.end[id.index()];
    for (DeviceId device : DevicesOf(task)) {
      DeviceUse& u = use[device.index()];
      (IsCommunication(task) ? u.communication : u.compute) += end - start;
      Nanos& until = covered[device.index()];
      if (start > until) u.idle += start - until;
      until = std::max(until, end);
    }
  }
  for (size_t d = 0; d < devices; ++d) use[d].idle += step.schedule.makespan - covered[d];
  return use;
}

void CheckMemory(const DeviceTopology& topology, Evaluation& evaluation) {
  for (size_t d = 0; d < evaluation.peak.size(); ++d) {
    const Device& device = topology.devices()[d];
    const Bytes excess = evaluation.peak[d] - device.memory;
    if (excess <= evaluation.excess) continue;
    evaluation.excess = excess;
    evaluation.verdict = Evaluation::Verdict::kOutOfMemory;
    evaluation.reason =
        absl::StrCat("device ", d, " (", device.name, ") needs ", evaluation.peak[d].value(),
                     " bytes and has ", device.memory.value(), ": ", excess.value(), " too few");
  }
}

Evaluation Invalid(const absl::Status& status) {
  Evaluation evaluation;
  evaluation.verdict = Evaluation::Verdict::kInvalid;
  evaluation.reason = std::string(status.message());
  return evaluation;
}

}  // namespace

Evaluator::Evaluator(const Graph& graph, const DeviceTopology& topology, const CostModel& model,
                     Options options)
    : graph_(graph), model_(model), options_(std::move(options)), resources_(topology) {}

void Evaluator::Price(EvaluatedStep& step) const {
  step.costs = PriceTasks(step.tasks, model_);
  step.evaluation.tasks = static_cast<int64_t>(step.costs.size());
  step.evaluation.sources = CountSources(step.costs);
}

// Who runs beside whom depends on the durations and they on it: one round of correction.
template <class SimulateTasks>
void Evaluator::SimulateBeside(EvaluatedStep& step, SimulateTasks&& simulate) const {
  step.durations = BoundedDurations(step.costs);
  step.schedule = simulate(step.durations);
  std::vector<Nanos> beside =
      DurationsBeside(step.tasks, topology(), step.costs, step.durations, step.schedule);
  if (beside == step.durations) return;
  step.durations = std::move(beside);
  step.schedule = simulate(step.durations);
}

Nanos Evaluator::TimeOf(const EvaluatedStep& step) const {
  if (model_.StepOverhead(1) == Nanos(0)) return step.schedule.makespan;
  std::vector<int64_t> tasks(static_cast<size_t>(step.tasks.devices()), 0);
  for (const Task& task : step.tasks.tasks()) {
    for (DeviceId d : DevicesOf(task)) ++tasks[d.index()];
  }
  const int64_t most = tasks.empty() ? 0 : *std::max_element(tasks.begin(), tasks.end());
  return step.schedule.makespan + model_.StepOverhead(most);
}

// Up to the schedule without waits for memory.
absl::StatusOr<EvaluatedStep> Evaluator::Start(const Strategy& strategy) const {
  EvaluatedStep step;
  ASSIGN_OR_RETURN(step.tasks,
                   Partition(graph_, strategy, PartitionOptionsOf(topology(), options_.choices)));
  Price(step);
  const FlatTasks flat = Flatten(step.tasks, resources_);
  const auto simulate = [&flat](std::span<const Nanos> d) { return Simulate(flat, d); };
  SimulateBeside(step, simulate);
  step.order = OrderOf(flat, step.schedule);
  step.evaluation.time = TimeOf(step);
  return step;
}

void Evaluator::AddFigures(EvaluatedStep& step) {
  step.evaluation.received = BytesReceived(step.tasks);
  step.evaluation.use = UseOf(step);
}

// From the order: memory, and the schedule with the waits that it adds.
void Evaluator::FinishInOrder(EvaluatedStep& step) const {
  step.memory = AssignBuffers(step.tasks, step.order, options_.sizes);
  const FlatTasks flat = Flatten(step.tasks, resources_, step.memory.added_dependencies);
  const auto simulate = [&](std::span<const Nanos> d) {
    return SimulateInOrder(flat, d, step.order);
  };
  if (step.durations.empty()) {
    SimulateBeside(step, simulate);
  } else {
    step.schedule = simulate(step.durations);
  }
  Evaluation& e = step.evaluation;
  e.time = TimeOf(step);
  for (int d = 0; d < step.tasks.devices(); ++d) e.peak.push_back(step.memory.peak(DeviceId(d)));
  if (options_.limit_memory) CheckMemory(topology(), e);
}

absl::StatusOr<EvaluatedStep> Evaluator::EvaluateStep(const Strategy& strategy) const {
  ASSIGN_OR_RETURN(EvaluatedStep step, Start(strategy));
  FinishInOrder(step);
  AddFigures(step);
  return step;
}

absl::StatusOr<EvaluatedStep> Evaluator::EvaluateOrder(TaskGraph tasks,
                                                       std::vector<TaskId> order) const {
  EvaluatedStep step;
  step.tasks = std::move(tasks);
  step.order = std::move(order);
  if (step.tasks.devices() > topology().size()) {
    return absl::InvalidArgumentError(absl::StrCat("the tasks are for ", step.tasks.devices(),
                                                   " devices; the machine has ",
                                                   topology().size()));
  }
  RETURN_IF_ERROR(CheckOrder(step.tasks, step.order));
  Price(step);
  FinishInOrder(step);
  AddFigures(step);
  return step;
}

Evaluation Evaluator::Evaluate(const Strategy& strategy, Nanos enough) const {
  auto step = Start(strategy);
  if (!step.ok()) return Invalid(step.status());
  if (step->evaluation.time <= enough) {
    FinishInOrder(*step);
    AddFigures(*step);
  }
  return std::move(step->evaluation);
}

Evaluation Evaluator::EvaluateBriefly(const Strategy& strategy, Nanos enough) const {
  auto step = Start(strategy);
  if (!step.ok()) return Invalid(step.status());
  if (step->evaluation.time <= enough) FinishInOrder(*step);
  return std::move(step->evaluation);
}

Prediction PredictionOf(const Evaluation& evaluation) {
  return {.time = evaluation.time,
          .peak = evaluation.peak,
          .received = evaluation.received,
          .measured = evaluation.sources.measured,
          .interpolated = evaluation.sources.interpolated,
          .roofline = evaluation.sources.roofline};
}

PlanOrder PlanOrderOf(const EvaluatedStep& step) {
  PlanOrder order{.task_graph_fingerprint = step.tasks.fingerprint()};
  for (TaskId id : step.order) order.tasks.push_back(id.value());
  return order;
}

}  // namespace partita
