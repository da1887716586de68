#include "tools/workflow/verification.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <memory_resource>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cost_model/discovery.h"
#include "graph/model/model_summary.h"
#include "graph/support/doing.h"
#include "graph/support/error_category.h"
#include "graph/support/philox.h"
#include "graph/support/status_macros.h"
#include "graph/support/stop_flag.h"
#include "graph/task/buffer_assignment.h"
#include "graph/verify/plan_verifier.h"
#include "graph/verify/step_verifier.h"
#include "graph/verify/task_checks.h"
#include "runtime/backend/backends.h"
#include "runtime/executor/executor_setup.h"
#include "runtime/serial/serial_trainer.h"
#include "runtime/support/finite.h"
#include "runtime/train/training_state.h"
#include "tools/workflow/dense_step.h"
#include "tools/workflow/profiling/kept_algorithms.h"

namespace partita {
namespace {

constexpr double kShareOfMemory = 0.9;

// With the memory that may be taken filled in.
absl::StatusOr<VerificationRequest> WithMemory(VerificationRequest request) {
  if (request.memory_bytes > 0) return request;
  ASSIGN_OR_RETURN(const Host host, ExamineHost());
  request.memory_bytes =
      static_cast<int64_t>(kShareOfMemory * static_cast<double>(host.available.value()));
  return request;
}

// What a step of this graph takes on devices of the reference backend, all in this host's memory,
// in addition to the serial run: arenas, every tensor of the serial run, and for comparing copies
// of the largest.
int64_t BytesNeeded(const Graph& graph, const BufferAssignment& memory) {
  int64_t bytes = 0, largest = 0;
  for (const Tensor& tensor : graph.tensors()) {
    bytes += tensor.type.bytes();
    largest = std::max(largest, tensor.type.bytes());
  }
  for (int d = 0; d < static_cast<int>(memory.arena.size()); ++d) {
    bytes += memory.peak(DeviceId(d)).value();
  }
  return bytes + 2 * largest;
}

// Runs both sides and compares after every step.
class Comparison {
 public:
  Comparison(const Graph& graph, const StepsToVerify& steps, const VerificationRequest& request)
      : graph_(graph), steps_(steps), request_(request) {}

  absl::Status Run(bool ring, VerificationResult& result) {
    ASSIGN_OR_RETURN(PlannedStep step, steps_.make(graph_));
    const BufferAssignment memory = AssignBuffers(step.tasks, step.order, {});
    const int64_t needed = BytesNeeded(graph_, memory);
    if (needed > request_.memory_bytes) {
      return MemoryError(absl::StrCat("verifying at batch ", graph_.batch(), " needs at least ",
                                      needed, " bytes; ", request_.memory_bytes,
                                      " may be used. Try --memory", ring ? ", or --quick" : ""));
    }
    const absl::Status proof =
        VerifyStep({graph_, steps_.strategy, step.tasks, step.order, &memory});
    if (absl::IsInvalidArgument(proof)) return proof;
    if (CheckTasks(graph_, step.tasks).ok()) {
      const absl::Status done = Execute(std::move(step), ring, result);
      result.interrupted = IsInterrupted(done) && result.first_difference.empty();
      if (!IsInterrupted(done)) RETURN_IF_ERROR(done);
    }
    if (!proof.ok() && result.first_difference.empty()) {
      result.interrupted = false;
      result.first_difference = absl::StrCat("plan verifier: ", proof.message());
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Execute(PlannedStep step, bool ring, VerificationResult& result) {
    ExecutorSetup setup;
    setup.devices = steps_.float_devices;
    if (ring || setup.devices.empty()) {  // only the reference backend computes in the ring
      ASSIGN_OR_RETURN(auto reference, MakeBackend("reference"));
      setup.devices = VirtualDevices(std::move(reference), steps_.devices);
    }
    const bool chosen = !ring && !steps_.communicator.empty();
    setup.communicator = chosen ? steps_.communicator : CommunicatorBetween(setup.devices);
    setup.nccl_library = steps_.nccl_library;
    setup.hang_seconds = 600;
    setup.stop = request_.stop;
    ASSIGN_OR_RETURN(const KeptAlgorithms::WithExecutor opened,
                     KeptAlgorithms::Open(graph_, std::move(step), setup, request_.profile));
    if (!opened.note.empty()) result.note = opened.note;
    Executor* const executor = opened.executor.get();
    if (IsSet(request_.stop)) return InterruptedError("interrupted before the first step");
    SerialTrainer serial(graph_, request_.seed);
    serial.StopWhen(request_.stop);
    SetInputs(ring, serial);
    if (!ring) CheckStart(serial, result);
    if (!result.first_difference.empty()) return absl::OkStatus();
    for (const Tensor& tensor : graph_.tensors()) {
      if (!LivesBetweenSteps(tensor)) continue;
      if (IsSet(request_.stop)) return InterruptedError("interrupted before the first step");
      RETURN_IF_ERROR(
          executor->WriteTensor(tensor.id, {tensor.type.dtype, serial.value(tensor.id).bytes}));
    }
    // Where devices can copy it from at every step, so that they replay steps as in training.
    const BatchCopy x(serial, TensorRole::kSamples, *executor);
    const BatchCopy y(serial, TensorRole::kLabels, *executor);
    for (int s = 0; s < request_.steps && result.first_difference.empty(); ++s) {
      StepArguments arguments;
      arguments.step = s;
      arguments.weight_decay = 5e-4;
      RETURN_IF_ERROR(executor->Step(x.tensor(), y.tensor(), arguments).status());
      Report(result.steps_compared + 0.5);
      RETURN_IF_ERROR(serial.Step(arguments));
      RETURN_IF_ERROR(CompareStep({serial, s, ring}, *executor, result));
      Report(++result.steps_compared);
    }
    if (ring || !result.first_difference.empty()) return absl::OkStatus();
    return CompareNotFinite(serial, *executor, result);
  }

  void Report(double steps) const {
    if (request_.progress) request_.progress(steps, StepsToCompare(request_));
  }

  // Weights that the model brings.
  void CheckStart(const SerialTrainer& serial, VerificationResult& result) const {
    for (TensorId id : UpdatedTensors(graph_)) {
      const DenseTensor& value = serial.value(id);
      const int64_t at = NotFiniteIn(value);
      if (at < 0 || !result.first_difference.empty()) continue;
      result.first_difference = absl::StrCat(
          "the model's weight '", graph_.tensor(id).name, "' is ", value.as<float>()[Index(at)],
          " at element ", at,
          ", so that no run of it can be compared in float. Give the model finite weights");
    }
  }

  // One more step, with a NaN among the samples: what becomes NaN or infinite in the serial run
  // does so in the plan's, too.
  absl::Status CompareNotFinite(SerialTrainer& serial, Executor& executor,
                                VerificationResult& result) {
    const TensorId input = graph_.tensors(TensorRole::kSamples)[0];
    const TensorType& type = graph_.tensor(input).type;
    if (type.dtype != DType::kFloat32) return absl::OkStatus();
    const auto x = serial.mutable_value(input).as<float>();
    x[x.size() / static_cast<size_t>(type.shape[0]) / 2] = std::numeric_limits<float>::quiet_NaN();
    const BatchCopy samples(serial, TensorRole::kSamples, executor);
    const BatchCopy labels(serial, TensorRole::kLabels, executor);
    StepArguments arguments;
    arguments.step = request_.steps;
    RETURN_IF_ERROR(executor.Step(samples.tensor(), labels.tensor(), arguments).status());
    RETURN_IF_ERROR(serial.Step(arguments));
    for (TensorId id : UpdatedTensors(graph_)) {
      const DenseTensor& want = serial.value(id);
      if (want.type.dtype != DType::kFloat32 || NotFiniteIn(want) < 0) continue;
      DenseTensor got(want.type);
      RETURN_IF_ERROR(executor.ReadTensor(id, got.bytes));
      for (size_t i = 0; i < want.as<float>().size(); ++i) {
        const float in_plan = got.as<float>()[i], in_serial = want.as<float>()[i];
        if (std::isfinite(in_serial) || !std::isfinite(in_plan)) continue;
        result.first_difference =
            absl::StrCat("NaN vanishes: after a step with a NaN among the samples tensor '",
                         graph_.tensor(id).name, "', element ", i, ", is ", in_plan,
                         "; in the serial model it is ", in_serial);
        return absl::OkStatus();
      }
    }
    return absl::OkStatus();
  }

  static size_t Index(int64_t i) { return static_cast<size_t>(i); }
  static int64_t NotFiniteIn(const DenseTensor& value) {
    if (value.type.dtype != DType::kFloat32) return -1;
    return FirstNotFinite(std::span<const float>(value.as<float>()));
  }

  class BatchCopy {
   public:
    BatchCopy(const SerialTrainer& from, TensorRole role, const Executor& to)
        : bytes_(to.batch_memory()) {
      if (from.graph().tensors(role).empty()) return;
      dtype_ = from.graph().WholeType(role).dtype;
      const std::vector<std::byte> batch = from.BatchOf(role);
      bytes_.assign(batch.begin(), batch.end());
    }
    HostTensor tensor() const { return {dtype_, bytes_}; }

   private:
    DType dtype_ = DType::kInt32;
    std::pmr::vector<std::byte> bytes_;
  };

  // What the serial run has after a step.
  struct SerialStep {
    const SerialTrainer& trainer;
    int step = 0;
    bool ring = false;
  };

  // The loss and metrics, then copies, then all that persists.
  absl::Status CompareStep(const SerialStep& serial, Executor& executor,
                           VerificationResult& result) {
    const auto outputs = executor.program().tasks.outputs();
    for (size_t k = 0; k < outputs.size() && result.first_difference.empty(); ++k) {
      const Tensor& tensor = graph_.tensor(outputs[k].tensor);
      if (!serial.ring && tensor.id == graph_.only(TensorRole::kCorrect))
        continue;  // rounding may turn it
      DenseTensor value(tensor.type);
      RETURN_IF_ERROR(executor.ReadOutput(k, value.bytes));
      Compare(serial, tensor, value, result);
    }
    if (!result.first_difference.empty()) return absl::OkStatus();
    const absl::Status copies = executor.CheckCopies();
    if (!copies.ok()) result.first_difference = std::string(copies.message());
    for (const Tensor& tensor : graph_.tensors()) {
      if (!LivesBetweenSteps(tensor) || !result.first_difference.empty()) continue;
      DenseTensor value(tensor.type);
      RETURN_IF_ERROR(executor.ReadTensor(tensor.id, value.bytes));
      Compare(serial, tensor, value, result);
    }
    return absl::OkStatus();
  }

  void SetInputs(bool ring, SerialTrainer& serial) const {
    if (ring) {
      serial.RandomizeRing(request_.seed);
      return;
    }
    std::vector<float> x(static_cast<size_t>(Volume(graph_.WholeType(TensorRole::kSamples).shape)));
    const TensorId samples = graph_.tensors(TensorRole::kSamples)[0];
    const bool integers = graph_.tensor(samples).type.dtype == DType::kInt32;
    const auto limit = static_cast<uint32_t>(integers ? graph_.IndexLimitOf(samples) : 1);
    for (size_t i = 0; i < x.size(); ++i) {
      const uint32_t word = PhiloxWord(request_.seed, 1, i);
      x[i] = integers ? static_cast<float>(word % limit) : 2 * UnitFloat(word) - 1;
    }
    std::vector<int32_t> labels;
    if (!graph_.tensors(TensorRole::kLabels).empty()) {
      labels.resize(static_cast<size_t>(Volume(graph_.WholeType(TensorRole::kLabels).shape)));
    }
    const Shape logits = graph_.WholeType(TensorRole::kLogits).shape;
    for (size_t i = 0; i < labels.size(); ++i) {
      labels[i] = static_cast<int32_t>(PhiloxWord(request_.seed, 2, i) %
                                       static_cast<uint32_t>(logits.back()));
    }
    (void)serial.SetBatch(x, labels);
  }

  void Compare(const SerialStep& serial, const Tensor& tensor, const DenseTensor& got,
               VerificationResult& result) const {
    const DenseTensor& want = serial.trainer.value(tensor.id);
    if (serial.ring) {
      if (got.bytes == want.bytes) return;
      const auto size = static_cast<size_t>(SizeOf(tensor.type.dtype));
      size_t i = 0;
      while (got.bytes[i] == want.bytes[i]) ++i;
      result.first_difference =
          absl::StrCat("tensor '", tensor.name, "' after step ", serial.step, ", element ",
                       i / size, ": the plan and the serial model differ (ring)");
      return;
    }
    if (const int64_t at = NotFiniteIn(want); at >= 0) {
      result.first_difference =
          absl::StrCat("the serial model itself diverges: tensor '", tensor.name, "' after step ",
                       serial.step, ", element ", at, " is ", want.as<float>()[Index(at)],
                       ", so that nothing can be compared. Verify fewer steps, or another seed");
      return;
    }
    double largest = 0;
    for (float v : want.as<float>()) largest = std::max(largest, std::abs(static_cast<double>(v)));
    for (size_t i = 0; i < want.as<float>().size(); ++i) {
      const double error = std::abs(static_cast<double>(got.as<float>()[i]) - want.as<float>()[i]);
      result.max_abs_error = std::max(result.max_abs_error, error);
      if (error <= request_.tolerance * largest + 1e-7) continue;
      result.first_difference =
          absl::StrCat("tensor '", tensor.name, "' after step ", serial.step, ", element ", i, ": ",
                       got.as<float>()[i], " instead of ", want.as<float>()[i]);
      return;
    }
  }

  const Graph& graph_;
  const StepsToVerify& steps_;
  const VerificationRequest& request_;
};

// Whether the larger of the two comparisons of a plan fits and none takes too long for plain loops.
absl::StatusOr<bool> IsAffordable(const Graph& graph, const Plan& plan,
                                  const VerificationRequest& request) {
  // The backward pass multiplies twice as much as the forward pass.
  const double work = 3.0 * request.steps * static_cast<double>(graph.batch()) *
                      static_cast<double>(Summarize(graph).macs_per_sample);
  if (work > static_cast<double>(request.multiply_adds)) return false;
  const Graph form = request.quick ? graph : WithRingArithmetic(graph);
  ASSIGN_OR_RETURN(const PlannedStep step, BuildDenseStep(form, plan));
  return BytesNeeded(form, AssignBuffers(step.tasks, step.order, {})) <= request.memory_bytes;
}

// The model at another batch, if the strategy is valid there as it is.
absl::StatusOr<Graph> Rebatched(const TrainingModel& model, const Plan& plan, int64_t batch) {
  ASSIGN_OR_RETURN(Graph smaller, TrainingGraphAt(batch, model));
  if (smaller.batch() != batch || smaller.ops().size() != model.graph.ops().size()) {
    return absl::InvalidArgumentError("the model has another form at this batch");
  }
  RETURN_IF_ERROR(BuildDenseStep(smaller, plan).status());
  return smaller;
}

}  // namespace

absl::StatusOr<VerificationResult> VerifyTrainingPlan(const TrainingModel& model, const Plan& plan,
                                                      const VerificationRequest& wanted) {
  ASSIGN_OR_RETURN(const VerificationRequest request, WithMemory(wanted));
  std::optional<Graph> reduced;
  const Graph* graph = &model.graph;
  while (graph->batch() > 1 && !IsSet(request.stop)) {
    ASSIGN_OR_RETURN(const bool affordable, IsAffordable(*graph, plan, request));
    if (affordable) break;
    auto smaller = Rebatched(model, plan, graph->batch() / 2);
    if (!smaller.ok()) break;
    reduced = *std::move(smaller);
    graph = &*reduced;
  }
  VerificationResult stopped;
  stopped.interrupted = true;
  if (IsSet(request.stop)) return stopped;
  const absl::Status proof = VerifyPlan(model.graph, plan);
  if (!proof.ok() && !absl::IsInternal(proof)) return proof;
  ASSIGN_OR_RETURN(VerificationResult result, VerifyEqual(*graph, plan, request));
  if (!proof.ok() && result.first_difference.empty()) {
    result.equal = result.interrupted = false;
    result.first_difference = absl::StrCat("plan verifier: ", proof.message());
  }
  return result;
}

int StepsToCompare(const VerificationRequest& request) {
  return request.quick ? request.steps : 2 * request.steps;
}

int ExitCodeOf(const VerificationResult& result) {
  if (result.interrupted) return static_cast<int>(ErrorCategory::kInterrupted);
  return result.equal ? 0 : static_cast<int>(ErrorCategory::kCheckFailed);
}

absl::StatusOr<VerificationResult> VerifySteps(const StepsToVerify& steps,
                                               const VerificationRequest& wanted) {
  ASSIGN_OR_RETURN(const VerificationRequest request, WithMemory(wanted));
  const Graph& graph = steps.graph;
  VerificationResult result;
  result.batch = graph.batch();
  if (!request.quick) {
    const Graph ring = WithRingArithmetic(graph);
    RETURN_IF_ERROR(Comparison(ring, steps, request).Run(true, result));
    result.ring_checked = !result.interrupted;
  }
  if (result.first_difference.empty() && !result.interrupted) {
    RETURN_IF_ERROR(Comparison(graph, steps, request).Run(false, result));
  }
  result.equal = result.first_difference.empty() && !result.interrupted;
  return result;
}

absl::StatusOr<VerificationResult> VerifyEqual(const Graph& graph, const Plan& plan,
                                               const VerificationRequest& request) {
  const Doing doing("verifying a plan");
  ASSIGN_OR_RETURN(auto devices, VirtualDevicesOf(plan.topology, request.backends));
  const std::vector<Precision> precisions = PrecisionsOn(devices, request.precision);
  const auto make = [&](const Graph& form) -> absl::StatusOr<PlannedStep> {
    ASSIGN_OR_RETURN(PlannedStep step, BuildDenseStep(form, plan, precisions));
    step.note.clear();  // is about speed
    return step;
  };
  return VerifySteps({graph, plan.strategy, plan.topology.size(), make, std::move(devices)},
                     request);
}

}  // namespace partita
