#include "tools/workflow/verification.h"

#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/model_summary.h"
#include "graph/support/philox.h"
#include "graph/support/status_macros.h"
#include "graph/task/buffer_assignment.h"
#include "graph/task/plan_verifier.h"
#include "graph/task/task_checks.h"
#include "runtime/backend/backends.h"
#include "runtime/serial/serial_trainer.h"
#include "runtime/train/executor_setup.h"
#include "runtime/train/training_state.h"

namespace partita {
namespace {

// Bytes of every tensor of the graph once in the ring: what the serial run takes at least.
int64_t SerialBytes(const Graph& graph, int64_t element) {
  int64_t bytes = 0;
  for (const Tensor& tensor : graph.tensors()) bytes += Volume(tensor.type.shape) * element;
  return bytes;
}

// The plan's task graph for another arithmetic, in the plan's order where it has one.
absl::StatusOr<PlannedStep> StepFor(const Graph& graph, const Plan& plan) {
  Plan dense = plan;
  dense.choices.native_formats = false;
  dense.order.reset();
  ASSIGN_OR_RETURN(PlannedStep step, BuildPlannedStep(graph, dense));
  if (plan.order.has_value() && plan.order->tasks.size() == step.tasks.tasks().size()) {
    std::vector<TaskId> order;
    for (int32_t task : plan.order->tasks) order.push_back(TaskId(task));
    if (CheckOrder(step.tasks, order).ok()) step.order = std::move(order);
  }
  return step;
}

// Runs both sides and compares after every step.
class Comparison {
 public:
  Comparison(const Graph& graph, const StepsToVerify& steps, const VerificationRequest& request)
      : graph_(graph), steps_(steps), request_(request), serial_(graph, request.seed) {}

  absl::Status Run(bool ring, VerificationResult& result) {
    ASSIGN_OR_RETURN(PlannedStep step, steps_.make(graph_));
    const BufferAssignment memory = AssignBuffers(step.tasks, step.order, {});
    const absl::Status proof =
        VerifyStep({graph_, steps_.strategy, step.tasks, step.order, &memory});
    if (absl::IsInvalidArgument(proof)) return proof;
    if (CheckTasks(graph_, step.tasks).ok()) {
      RETURN_IF_ERROR(Execute(std::move(step), ring, result));
    }
    if (!proof.ok() && result.first_difference.empty()) {
      result.first_difference = absl::StrCat("plan verifier: ", proof.message());
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Execute(PlannedStep step, bool ring, VerificationResult& result) {
    ASSIGN_OR_RETURN(const auto backend, MakeBackend("reference"));
    ExecutorSetup setup;
    setup.backend = backend.get();
    setup.devices = VirtualDeviceSpecs(steps_.devices);
    setup.hang_seconds = 600;
    ASSIGN_OR_RETURN(const auto executor, OpenExecutor(graph_, std::move(step), setup));
    SetInputs(ring);
    for (const Tensor& tensor : graph_.tensors()) {
      if (!LivesBetweenSteps(tensor)) continue;
      RETURN_IF_ERROR(executor->WriteTensor(
          tensor.id, {tensor.type.dtype, serial_.value(tensor.id).bytes.data()}));
    }
    for (int s = 0; s < request_.steps && result.first_difference.empty(); ++s) {
      StepArguments arguments;
      arguments.step = s;
      arguments.weight_decay = 5e-4;
      const DenseTensor& x = serial_.value(graph_.input());
      const void* labels =
          graph_.labels() == kNoTensor ? nullptr : serial_.value(graph_.labels()).bytes.data();
      RETURN_IF_ERROR(
          executor->Step({x.type.dtype, x.bytes.data()}, {DType::kInt32, labels}, arguments)
              .status());
      RETURN_IF_ERROR(serial_.Step(arguments));
      RETURN_IF_ERROR(CompareStep(*executor, s, ring, result));
    }
    return absl::OkStatus();
  }

  // The loss and metrics, then copies, then all that persists.
  absl::Status CompareStep(Executor& executor, int step, bool ring, VerificationResult& result) {
    const auto outputs = executor.program().tasks.outputs();
    for (size_t k = 0; k < outputs.size() && result.first_difference.empty(); ++k) {
      const Tensor& tensor = graph_.tensor(outputs[k].tensor);
      if (!ring && tensor.id == graph_.correct()) continue;  // rounding may turn a prediction
      DenseTensor value(tensor.type);
      RETURN_IF_ERROR(executor.ReadOutput(k, value.bytes.data()));
      Compare(tensor, step, value, ring, result);
    }
    if (!result.first_difference.empty()) return absl::OkStatus();
    const absl::Status copies = executor.CheckCopies();
    if (!copies.ok()) result.first_difference = std::string(copies.message());
    for (const Tensor& tensor : graph_.tensors()) {
      if (!LivesBetweenSteps(tensor) || !result.first_difference.empty()) continue;
      DenseTensor value(tensor.type);
      RETURN_IF_ERROR(executor.ReadTensor(tensor.id, value.bytes.data()));
      Compare(tensor, step, value, ring, result);
    }
    return absl::OkStatus();
  }

  void SetInputs(bool ring) {
    if (ring) {
      serial_.RandomizeRing(request_.seed);
      return;
    }
    const TensorId input = graph_.input();
    std::vector<float> x(static_cast<size_t>(Volume(graph_.tensor(input).type.shape)));
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = 2 * UnitFloat(PhiloxWord(request_.seed, 1, i)) - 1;
    }
    (void)serial_.Set(input, x);
    if (graph_.labels() == kNoTensor) return;
    const Shape& logits = graph_.tensor(graph_.logits()).type.shape;
    DenseTensor& labels = serial_.mutable_value(graph_.labels());
    for (size_t i = 0; i < labels.as<int32_t>().size(); ++i) {
      labels.as<int32_t>()[i] = static_cast<int32_t>(PhiloxWord(request_.seed, 2, i) %
                                                     static_cast<uint32_t>(logits.back()));
    }
  }

  void Compare(const Tensor& tensor, int step, const DenseTensor& got, bool ring,
               VerificationResult& result) {
    const DenseTensor& want = serial_.value(tensor.id);
    if (ring) {
      if (got.bytes == want.bytes) return;
      const auto size = static_cast<size_t>(SizeOf(tensor.type.dtype));
      size_t i = 0;
      while (got.bytes[i] == want.bytes[i]) ++i;
      result.first_difference =
          absl::StrCat("tensor '", tensor.name, "' after step ", step, ", element ", i / size,
                       ": the plan and the serial model differ (ring)");
      return;
    }
    double largest = 0;
    for (float v : want.as<float>()) largest = std::max(largest, std::abs(static_cast<double>(v)));
    for (size_t i = 0; i < want.as<float>().size(); ++i) {
      const double error = std::abs(static_cast<double>(got.as<float>()[i]) - want.as<float>()[i]);
      result.max_abs_error = std::max(result.max_abs_error, error);
      if (error <= request_.tolerance * largest + 1e-7) continue;
      result.first_difference =
          absl::StrCat("tensor '", tensor.name, "' after step ", step, ", element ", i, ": ",
                       got.as<float>()[i], " instead of ", want.as<float>()[i]);
      return;
    }
  }

  const Graph& graph_;
  const StepsToVerify& steps_;
  const VerificationRequest& request_;
  SerialTrainer serial_;
};

// What the serial run and the plan's devices, which together hold at least as much, take at least.
int64_t BytesNeeded(const Graph& graph, bool quick) {
  return 2 * SerialBytes(graph, quick ? 4 : 8);
}

bool Affordable(const Graph& graph, const VerificationRequest& request) {
  // The backward pass multiplies twice as much as the forward pass.
  const double work = 3.0 * request.steps * static_cast<double>(graph.batch()) *
                      static_cast<double>(Summarize(graph).macs_per_sample);
  return BytesNeeded(graph, request.quick) <= request.memory_bytes &&
         work <= static_cast<double>(request.multiply_adds);
}

// The model at another batch, if the strategy is valid there as it is.
absl::StatusOr<Graph> Rebatched(const TrainingModel& model, const Plan& plan, int64_t batch) {
  ASSIGN_OR_RETURN(TrainingModel smaller,
                   LoadTrainingModel({model.label.source, batch, model.label.optimizer,
                                      model.label.freeze_batch_norm}));
  if (smaller.graph.batch() != batch || smaller.graph.ops().size() != model.graph.ops().size()) {
    return absl::InvalidArgumentError("the model has another form at this batch");
  }
  RETURN_IF_ERROR(StepFor(smaller.graph, plan).status());
  return std::move(smaller.graph);
}

}  // namespace

absl::StatusOr<VerificationResult> VerifyTrainingPlan(const TrainingModel& model, const Plan& plan,
                                                      const VerificationRequest& request) {
  std::optional<Graph> reduced;
  const Graph* graph = &model.graph;
  while (graph->batch() > 1 && !Affordable(*graph, request)) {
    auto smaller = Rebatched(model, plan, graph->batch() / 2);
    if (!smaller.ok()) break;
    reduced = *std::move(smaller);
    graph = &*reduced;
  }
  const absl::Status proof = VerifyPlan(model.graph, plan);
  if (!proof.ok() && !absl::IsInternal(proof)) return proof;
  ASSIGN_OR_RETURN(VerificationResult result, VerifyEqual(*graph, plan, request));
  if (result.equal && !proof.ok()) {
    result.equal = false;
    result.first_difference = absl::StrCat("plan verifier: ", proof.message());
  }
  return result;
}

int ExitCodeOf(const VerificationResult& result) { return result.equal ? 0 : 1; }

absl::StatusOr<VerificationResult> VerifySteps(const StepsToVerify& steps,
                                               const VerificationRequest& request) {
  const Graph& graph = steps.graph;
  const int64_t needed = BytesNeeded(graph, request.quick);
  if (needed > request.memory_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("verifying at batch ", graph.batch(), " needs at least ", needed, " bytes; ",
                     request.memory_bytes, " may be used. Try --memory, or --quick"));
  }
  VerificationResult result;
  result.batch = graph.batch();
  if (!request.quick) {
    const Graph ring = WithRingArithmetic(graph);
    RETURN_IF_ERROR(Comparison(ring, steps, request).Run(true, result));
    result.ring_checked = true;
  }
  if (result.first_difference.empty()) {
    RETURN_IF_ERROR(Comparison(graph, steps, request).Run(false, result));
  }
  result.equal = result.first_difference.empty();
  return result;
}

absl::StatusOr<VerificationResult> VerifyEqual(const Graph& graph, const Plan& plan,
                                               const VerificationRequest& request) {
  return VerifySteps({graph, plan.strategy, plan.topology.size(),
                      [&plan](const Graph& form) { return StepFor(form, plan); }},
                     request);
}

}  // namespace partita
