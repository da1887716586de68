#include "tools/workflow/step_comparison.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <memory_resource>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "graph/support/error_category.h"
#include "graph/support/philox.h"
#include "graph/support/status_macros.h"
#include "graph/support/stop_flag.h"
#include "graph/verify/step_verifier.h"
#include "graph/verify/task_checks.h"
#include "runtime/backend/backends.h"
#include "runtime/executor/executor_setup.h"
#include "runtime/serial/serial_trainer.h"
#include "runtime/support/finite.h"
#include "runtime/train/training_state.h"
#include "tools/workflow/profiling/kept_algorithms.h"

namespace partita {
namespace {

size_t Index(int64_t i) { return static_cast<size_t>(i); }

// Calls with the elements of a tensor of real numbers.
template <class Visit>
auto WithElements(const DenseTensor& tensor, Visit&& visit) {
  return tensor.type.dtype == DType::kFloat64 ? visit(tensor.as<double>())
                                              : visit(tensor.as<float>());
}

int64_t FirstNotFiniteOf(const DenseTensor& tensor) {
  if (!IsReal(tensor.type.dtype)) return -1;
  return WithElements(tensor, [](auto elements) { return FirstNotFinite(elements); });
}

// An element, with the digits by which two that differ are told apart.
std::string ElementText(const DenseTensor& tensor, int64_t i) {
  if (tensor.type.dtype == DType::kFloat64) {
    return absl::StrFormat("%.12g", tensor.as<double>()[Index(i)]);
  }
  return absl::StrCat(tensor.as<float>()[Index(i)]);
}

// An element may differ by this.
struct Tolerance {
  double relative = 0;  // of the tensor's largest element
  double absolute = 0;
};

struct RealComparison {
  int64_t first = -1;  // first element beyond the tolerance; -1: none
  double largest_error = 0;
};

RealComparison CompareReal(const DenseTensor& got, const DenseTensor& want,
                           const Tolerance& tolerance) {
  return WithElements(want, [&](auto wanted) {
    using T = std::remove_const_t<typename decltype(wanted)::element_type>;
    const std::span<const T> found = got.as<T>();
    double largest = 0;
    for (T v : wanted) largest = std::max(largest, std::abs(static_cast<double>(v)));
    RealComparison result;
    for (size_t i = 0; i < wanted.size() && result.first < 0; ++i) {
      const double error = std::abs(static_cast<double>(found[i]) - static_cast<double>(wanted[i]));
      result.largest_error = std::max(result.largest_error, error);
      if (!(error <= tolerance.relative * largest + tolerance.absolute)) {
        result.first = static_cast<int64_t>(i);
      }
    }
    return result;
  });
}

// Elements that are finite in the serial model's step and not so in the plan's are allowed; the
// first that is the other way round, or -1.
int64_t FirstThatBecameFinite(const DenseTensor& got, const DenseTensor& want) {
  return WithElements(want, [&](auto wanted) {
    using T = std::remove_const_t<typename decltype(wanted)::element_type>;
    const std::span<const T> found = got.as<T>();
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (!std::isfinite(wanted[i]) && std::isfinite(found[i])) return static_cast<int64_t>(i);
    }
    return int64_t{-1};
  });
}

void SetInputs(Arithmetic arithmetic, uint64_t seed, SerialTrainer& serial) {
  if (arithmetic == Arithmetic::kRing) {
    serial.RandomizeRing(seed);
    return;
  }
  const Graph& graph = serial.graph();
  std::vector<float> x(Index(Volume(graph.WholeType(TensorRole::kSamples).shape)));
  const TensorId samples = graph.tensors(TensorRole::kSamples)[0];
  const bool integers = graph.tensor(samples).type.dtype == DType::kInt32;
  const auto limit = static_cast<uint32_t>(integers ? graph.IndexLimitOf(samples) : 1);
  for (size_t i = 0; i < x.size(); ++i) {
    const uint32_t word = PhiloxWord(seed, 1, i);
    x[i] = integers ? static_cast<float>(word % limit) : 2 * UnitFloat(word) - 1;
  }
  std::vector<int32_t> labels;
  if (!graph.tensors(TensorRole::kLabels).empty()) {
    labels.resize(Index(Volume(graph.WholeType(TensorRole::kLabels).shape)));
  }
  const Shape logits = graph.WholeType(TensorRole::kLogits).shape;
  for (size_t i = 0; i < labels.size(); ++i) {
    labels[i] = static_cast<int32_t>(PhiloxWord(seed, 2, i) % static_cast<uint32_t>(logits.back()));
  }
  (void)serial.SetBatch(x, labels);
}

// The inputs of a role, where devices can copy them from at every step, so that they replay steps
// as in training.
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

// Runs both sides and compares after every step.
class Comparison {
 public:
  Comparison(const Graph& graph, Arithmetic arithmetic, const StepsToVerify& steps,
             const VerificationRequest& request)
      : graph_(graph), arithmetic_(arithmetic), steps_(steps), request_(request) {}

  absl::StatusOr<StepComparison> Run(const std::function<void(double)>& report) {
    ASSIGN_OR_RETURN(PlannedStep step, steps_.make(graph_));
    const BufferAssignment memory = AssignBuffers(step.tasks, step.order, {});
    RETURN_IF_ERROR(CheckMemory(memory));
    const absl::Status proof =
        VerifyStep({graph_, steps_.strategy, step.tasks, step.order, &memory});
    if (absl::IsInvalidArgument(proof)) return proof;
    if (CheckTasks(graph_, step.tasks).ok()) {
      const absl::Status done = Execute(std::move(step), report);
      result_.interrupted = IsInterrupted(done) && IsEqual();
      if (!IsInterrupted(done)) RETURN_IF_ERROR(done);
    }
    if (!proof.ok() && IsEqual()) {
      result_.interrupted = false;
      result_.first_difference = absl::StrCat("plan verifier: ", proof.message());
    }
    return std::move(result_);
  }

 private:
  // What the serial run has after a step.
  struct SerialStep {
    const SerialTrainer& trainer;
    int step = 0;
  };

  bool IsEqual() const { return result_.first_difference.empty(); }
  bool in_ring() const { return arithmetic_ == Arithmetic::kRing; }
  Tolerance tolerance() const {
    if (arithmetic_ == Arithmetic::kFloat64) return {kFloat64Tolerance, 1e-12};
    return {request_.tolerance, 1e-7};
  }

  absl::Status CheckMemory(const BufferAssignment& memory) const {
    const int64_t needed = BytesToCompare(graph_, memory);
    if (needed <= request_.memory_bytes) return absl::OkStatus();
    return MemoryError(absl::StrCat("verifying at batch ", graph_.batch(), " needs at least ",
                                    needed, " bytes; ", request_.memory_bytes,
                                    " may be used. Try --memory", in_ring() ? ", or --quick" : ""));
  }

  absl::StatusOr<ExecutorSetup> Setup() const {
    ExecutorSetup setup;
    const bool given = arithmetic_ == Arithmetic::kFloat32;
    if (given) setup.devices = steps_.float_devices;
    if (setup.devices.empty()) {  // only the reference backend computes in every arithmetic
      ASSIGN_OR_RETURN(auto reference, MakeBackend("reference"));
      setup.devices = VirtualDevices(std::move(reference), steps_.devices);
    }
    setup.communicator = given && !steps_.communicator.empty() ? steps_.communicator
                                                               : CommunicatorBetween(setup.devices);
    setup.nccl_library = steps_.nccl_library;
    setup.hang_seconds = 600;
    setup.stop = request_.stop;
    return setup;
  }

  absl::Status Execute(PlannedStep step, const std::function<void(double)>& report) {
    ASSIGN_OR_RETURN(ExecutorSetup setup, Setup());
    ASSIGN_OR_RETURN(const KeptAlgorithms::WithExecutor opened,
                     KeptAlgorithms::Open(graph_, std::move(step), setup, request_.profile));
    result_.note = opened.note;
    Executor& executor = *opened.executor;
    if (IsSet(request_.stop)) return InterruptedError("interrupted before the first step");
    SerialTrainer serial(graph_, request_.seed);
    serial.StopWhen(request_.stop);
    SetInputs(arithmetic_, request_.seed, serial);
    CheckStart(serial);
    if (!IsEqual()) return absl::OkStatus();
    for (const Tensor& tensor : graph_.tensors()) {
      if (!LivesBetweenSteps(tensor)) continue;
      if (IsSet(request_.stop)) return InterruptedError("interrupted before the first step");
      RETURN_IF_ERROR(
          executor.WriteTensor(tensor.id, {tensor.type.dtype, serial.value(tensor.id).bytes}));
    }
    RETURN_IF_ERROR(RunSteps(serial, executor, report));
    if (in_ring() || !IsEqual()) return absl::OkStatus();
    return CompareNotFinite(serial, executor);
  }

  absl::Status RunSteps(SerialTrainer& serial, Executor& executor,
                        const std::function<void(double)>& report) {
    const BatchCopy x(serial, TensorRole::kSamples, executor);
    const BatchCopy y(serial, TensorRole::kLabels, executor);
    for (int s = 0; s < request_.steps && IsEqual(); ++s) {
      StepArguments arguments;
      arguments.step = s;
      arguments.weight_decay = 5e-4;
      RETURN_IF_ERROR(executor.Step(x.tensor(), y.tensor(), arguments).status());
      report(result_.steps_compared + 0.5);
      RETURN_IF_ERROR(serial.Step(arguments));
      RETURN_IF_ERROR(CompareStep({serial, s}, executor));
      report(++result_.steps_compared);
    }
    return absl::OkStatus();
  }

  // Weights that the model brings.
  void CheckStart(const SerialTrainer& serial) {
    for (TensorId id : UpdatedTensors(graph_)) {
      const DenseTensor& value = serial.value(id);
      const int64_t at = FirstNotFiniteOf(value);
      if (at < 0 || !IsEqual()) continue;
      result_.first_difference = absl::StrCat(
          "the model's weight '", graph_.tensor(id).name, "' is ", ElementText(value, at),
          " at element ", at,
          ", so that no run of it can be compared in float. Give the model finite weights");
    }
  }

  // One more step, with a NaN among the samples: what becomes NaN or infinite in the serial run
  // does so in the plan's, too.
  absl::Status CompareNotFinite(SerialTrainer& serial, Executor& executor) {
    const TensorId input = graph_.tensors(TensorRole::kSamples)[0];
    const TensorType& type = graph_.tensor(input).type;
    if (!IsReal(type.dtype)) return absl::OkStatus();
    const int64_t middle_of_first = Volume(type.shape) / type.shape[0] / 2;
    DenseTensor& samples = serial.mutable_value(input);
    if (type.dtype == DType::kFloat64) {
      samples.as<double>()[Index(middle_of_first)] = std::numeric_limits<double>::quiet_NaN();
    } else {
      samples.as<float>()[Index(middle_of_first)] = std::numeric_limits<float>::quiet_NaN();
    }
    const BatchCopy x(serial, TensorRole::kSamples, executor);
    const BatchCopy y(serial, TensorRole::kLabels, executor);
    StepArguments arguments;
    arguments.step = request_.steps;
    RETURN_IF_ERROR(executor.Step(x.tensor(), y.tensor(), arguments).status());
    RETURN_IF_ERROR(serial.Step(arguments));
    for (TensorId id : UpdatedTensors(graph_)) {
      const DenseTensor& want = serial.value(id);
      if (FirstNotFiniteOf(want) < 0) continue;
      DenseTensor got(want.type);
      RETURN_IF_ERROR(executor.ReadTensor(id, got.bytes));
      const int64_t i = FirstThatBecameFinite(got, want);
      if (i < 0) continue;
      result_.first_difference =
          absl::StrCat("NaN vanishes: after a step with a NaN among the samples tensor '",
                       graph_.tensor(id).name, "', element ", i, ", is ", ElementText(got, i),
                       "; in the serial model it is ", ElementText(want, i));
      return absl::OkStatus();
    }
    return absl::OkStatus();
  }

  // The loss and metrics, then copies, then all that persists.
  absl::Status CompareStep(const SerialStep& serial, Executor& executor) {
    const auto outputs = executor.program().tasks.outputs();
    for (size_t k = 0; k < outputs.size() && IsEqual(); ++k) {
      const Tensor& tensor = graph_.tensor(outputs[k].tensor);
      if (!in_ring() && tensor.id == graph_.only(TensorRole::kCorrect)) {
        continue;  // rounding may turn it
      }
      DenseTensor value(tensor.type);
      RETURN_IF_ERROR(executor.ReadOutput(k, value.bytes));
      Compare(serial, tensor, value);
    }
    if (!IsEqual()) return absl::OkStatus();
    const absl::Status copies = executor.CheckCopies();
    if (!copies.ok()) result_.first_difference = std::string(copies.message());
    for (const Tensor& tensor : graph_.tensors()) {
      if (!LivesBetweenSteps(tensor) || !IsEqual()) continue;
      DenseTensor value(tensor.type);
      RETURN_IF_ERROR(executor.ReadTensor(tensor.id, value.bytes));
      Compare(serial, tensor, value);
    }
    return absl::OkStatus();
  }

  void Compare(const SerialStep& serial, const Tensor& tensor, const DenseTensor& got) {
    const DenseTensor& want = serial.trainer.value(tensor.id);
    if (in_ring()) {
      if (got.bytes == want.bytes) return;
      const auto size = static_cast<size_t>(SizeOf(tensor.type.dtype));
      size_t i = 0;
      while (got.bytes[i] == want.bytes[i]) ++i;
      result_.first_difference =
          absl::StrCat("tensor '", tensor.name, "' after step ", serial.step, ", element ",
                       i / size, ": the plan and the serial model differ (ring)");
      return;
    }
    if (const int64_t at = FirstNotFiniteOf(want); at >= 0) {
      result_.first_difference =
          absl::StrCat("the serial model itself diverges: tensor '", tensor.name, "' after step ",
                       serial.step, ", element ", at, " is ", ElementText(want, at),
                       ", so that nothing can be compared. Verify fewer steps, or another seed");
      return;
    }
    const RealComparison real = CompareReal(got, want, tolerance());
    result_.max_abs_error = std::max(result_.max_abs_error, real.largest_error);
    if (real.first < 0) return;
    result_.beyond_tolerance = FirstNotFiniteOf(got) < 0;
    result_.first_difference = absl::StrCat(
        "tensor '", tensor.name, "' after step ", serial.step, ", element ", real.first, ": ",
        ElementText(got, real.first), " instead of ", ElementText(want, real.first));
  }

  const Graph& graph_;
  const Arithmetic arithmetic_;
  const StepsToVerify& steps_;
  const VerificationRequest& request_;
  StepComparison result_;
};

}  // namespace

int64_t BytesToCompare(const Graph& graph, const BufferAssignment& memory) {
  // The serial run has every tensor; comparing copies the largest.
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

absl::StatusOr<StepComparison> CompareSteps(const Graph& graph, Arithmetic arithmetic,
                                            const StepsToVerify& steps,
                                            const VerificationRequest& request,
                                            const std::function<void(double)>& report) {
  return Comparison(graph, arithmetic, steps, request).Run(report);
}

}  // namespace partita
