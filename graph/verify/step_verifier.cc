#include "graph/verify/step_verifier.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"
#include "graph/task/happens_before.h"
#include "graph/task/task_order.h"
#include "graph/verify/collective_checks.h"
#include "graph/verify/control_checks.h"
#include "graph/verify/operator_checks.h"
#include "graph/verify/symbolic_step.h"
#include "graph/verify/task_checks.h"

namespace partita {
namespace {

using Dependencies = std::vector<std::pair<TaskId, TaskId>>;

absl::Status CheckAdded(std::span<const TaskId> order, const Dependencies& added) {
  std::vector<size_t> place(order.size());
  for (size_t p = 0; p < order.size(); ++p) place[order[p].index()] = p;
  for (const auto& [task, before] : added) {
    if (place[before.index()] >= place[task.index()]) {
      return absl::InternalError(absl::StrCat("reuse of memory makes task ", task.value(),
                                              " wait for task ", before.value(),
                                              ", which comes later in the order"));
    }
  }
  return absl::OkStatus();
}

// Lanes, waits and memory.
absl::Status CheckExecution(const StepToVerify& step) {
  const Dependencies none;
  const Dependencies& added = step.memory == nullptr ? none : step.memory->added_dependencies;
  RETURN_IF_ERROR(CheckOrder(step.tasks, {step.order.begin(), step.order.end()}));
  RETURN_IF_ERROR(CheckAdded(step.order, added));
  RETURN_IF_ERROR(RunLanes(step.tasks, step.order, added));
  const HappensBefore before(step.tasks, step.order, added);
  RETURN_IF_ERROR(CheckAccesses(step.tasks, step.order, before));
  if (step.memory == nullptr) return absl::OkStatus();
  return CheckMemory(step.tasks, step.order, *step.memory, before);
}

// What the host reads, and what is kept for the next step.
absl::Status CheckEnd(const StepToVerify& step, const SymbolicStep& state) {
  std::vector<TensorId> next_of(step.graph.tensors().size(), kNoTensor);
  for (const Tensor& tensor : step.graph.tensors()) {
    if (tensor.kind == TensorKind::kNext) next_of[tensor.of.index()] = tensor.id;
  }
  for (const Buffer& buffer : step.tasks.buffers()) {
    if (!buffer.persistent()) continue;
    const TensorId next = next_of[buffer.tensor.index()];
    RETURN_IF_ERROR(
        state.CheckHolds(next == kNoTensor ? buffer.tensor : next, buffer.id, buffer.box,
                         absl::StrCat("the next step on device ", buffer.device.value())));
  }
  for (const HostOutput& output : step.tasks.outputs()) {
    const Box whole = Box::Full(step.graph.tensor(output.tensor).type.shape);
    if (output.buffer == kNoBuffer || step.tasks.buffer(output.buffer).box != whole ||
        step.tasks.buffer(output.buffer).device != step.strategy.host_device) {
      return absl::InternalError(absl::StrCat("the host does not get all of tensor '",
                                              step.graph.tensor(output.tensor).name, "'"));
    }
    RETURN_IF_ERROR(state.CheckHolds(output.tensor, output.buffer, whole, "the host"));
  }
  return absl::OkStatus();
}

absl::Status CheckHostOutputs(const StepToVerify& step) {
  std::vector<TensorId> outputs;
  for (TensorRole role : {TensorRole::kLoss, TensorRole::kCorrect}) {
    const auto ids = step.graph.tensors(role);
    outputs.insert(outputs.end(), ids.begin(), ids.end());
  }
  for (TensorId wanted : outputs) {
    bool found = false;
    for (const HostOutput& output : step.tasks.outputs()) found |= output.tensor == wanted;
    if (!found) {
      return absl::InternalError(
          absl::StrCat("the host does not get tensor '", step.graph.tensor(wanted).name, "'"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status VerifyStep(const StepToVerify& step) {
  RETURN_IF_ERROR(ValidateStrategy(step.graph, step.strategy, step.tasks.devices()));
  RETURN_IF_ERROR(CheckTasks(step.graph, step.tasks));
  RETURN_IF_ERROR(CheckCollectives(step.graph, step.strategy, step.tasks));
  RETURN_IF_ERROR(CheckControlEdges(step.graph, step.strategy, step.tasks));
  RETURN_IF_ERROR(CheckExecution(step));
  ASSIGN_OR_RETURN(const CheckedOperators checked,
                   CheckOperators(step.graph, step.strategy, step.tasks));
  SymbolicStep state(step.graph, step.tasks, checked.expected);
  state.Begin();
  for (TaskId id : step.order) {
    RETURN_IF_ERROR(state.Run(step.tasks.task(id), checked.terms[id.index()]));
  }
  RETURN_IF_ERROR(CheckHostOutputs(step));
  return CheckEnd(step, state);
}

}  // namespace partita
