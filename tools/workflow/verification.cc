#include "tools/workflow/verification.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cost_model/discovery.h"
#include "graph/model/model_summary.h"
#include "graph/support/doing.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"
#include "graph/support/stop_flag.h"
#include "graph/task/buffer_assignment.h"
#include "graph/verify/plan_verifier.h"
#include "runtime/backend/backends.h"
#include "runtime/executor/executor_setup.h"
#include "tools/workflow/dense_step.h"
#include "tools/workflow/step_comparison.h"

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

// Whether the larger of the two comparisons of a plan fits and none takes too long for plain loops.
absl::StatusOr<bool> IsAffordable(const Graph& graph, const Plan& plan,
                                  const VerificationRequest& request) {
  // The backward pass multiplies twice as much as the forward pass.
  const double work = 3.0 * request.steps * static_cast<double>(graph.batch()) *
                      static_cast<double>(Summarize(graph).macs_per_sample);
  if (work > static_cast<double>(request.multiply_adds)) return false;
  const Graph form = request.quick ? graph : WithRingArithmetic(graph);
  ASSIGN_OR_RETURN(const PlannedStep step, BuildDenseStep(form, plan));
  return BytesToCompare(form, AssignBuffers(step.tasks, step.order, {})) <= request.memory_bytes;
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

int StepsToCompare(const VerificationRequest& request) {
  return request.quick ? request.steps : 2 * request.steps;
}

// Compares in the ring, in float32 and, where rounding may have made them differ, in float64.
class Verification {
 public:
  Verification(const StepsToVerify& steps, const VerificationRequest& request)
      : steps_(steps), request_(request) {
    result_.batch = steps.graph.batch();
    result_.arithmetic = RowOf(request.precision).name;
    result_.tolerance = request.tolerance;
    result_.steps_to_compare = StepsToCompare(request);
  }

  absl::StatusOr<VerificationResult> Run() {
    if (!request_.quick) {
      RETURN_IF_ERROR(Compare(Arithmetic::kRing).status());
      result_.ring_checked = !result_.interrupted;
    }
    if (MayGoOn()) {
      ASSIGN_OR_RETURN(const StepComparison real, Compare(Arithmetic::kFloat32));
      if (real.beyond_tolerance) RETURN_IF_ERROR(ExplainByRounding());
    }
    result_.equal = MayGoOn();
    return std::move(result_);
  }

 private:
  bool MayGoOn() const { return result_.first_difference.empty() && !result_.interrupted; }

  absl::StatusOr<StepComparison> Compare(Arithmetic arithmetic) {
    std::optional<Graph> form;
    if (arithmetic != Arithmetic::kFloat32) {
      const bool in_ring = arithmetic == Arithmetic::kRing;
      form = WithArithmetic(in_ring ? DType::kRing64 : DType::kFloat64, steps_.graph);
    }
    const int before = result_.steps_compared;
    const auto report = [&](double steps) {
      if (request_.progress) request_.progress(before + steps, result_.steps_to_compare);
    };
    ASSIGN_OR_RETURN(StepComparison comparison,
                     CompareSteps(form.has_value() ? *form : steps_.graph, arithmetic, steps_,
                                  request_, report));
    result_.steps_compared += comparison.steps_compared;
    result_.interrupted = comparison.interrupted;
    result_.max_abs_error = comparison.max_abs_error;
    result_.first_difference = comparison.first_difference;
    if (!comparison.note.empty()) result_.note = comparison.note;
    return comparison;
  }

  // Whether what differs in float32 is rounding that the model amplifies, as deep ones with batch
  // normalisation do of small batches: then both agree in float64, in which they round 2^29 times
  // more finely. Only the reference backend computes in it, so that this proves the plan and not
  // the kernels of other devices.
  absl::Status ExplainByRounding() {
    const std::string in_float32 = result_.first_difference;
    const double error = result_.max_abs_error;
    result_.steps_to_compare += request_.steps;
    const auto finer = Compare(Arithmetic::kFloat64);
    if (absl::IsResourceExhausted(finer.status())) {
      result_.first_difference =
          absl::StrCat(in_float32, ". It may be rounding: to tell it apart in float64, ",
                       finer.status().message());
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(finer.status());
    if (!MayGoOn()) {
      if (!result_.interrupted) absl::StrAppend(&result_.first_difference, " (in float64)");
      return absl::OkStatus();
    }
    if (HasOtherKernels()) {
      result_.max_abs_error = error;
      result_.first_difference = absl::StrCat(
          in_float32, "; the plan itself is equal in float64 on the reference backend, so that ",
          "rounding, which this model amplifies, or a kernel of these devices makes the "
          "difference");
      return absl::OkStatus();
    }
    result_.arithmetic = "float64";
    result_.tolerance = kFloat64Tolerance;
    result_.rounding = absl::StrCat("this model amplifies rounding: in float32 ", in_float32,
                                    "; in float64 the plan and the serial model agree");
    return absl::OkStatus();
  }

  // Whether float32 ran kernels other than the reference backend's.
  bool HasOtherKernels() const {
    return std::any_of(
        steps_.float_devices.begin(), steps_.float_devices.end(),
        [](const PlacedDevice& device) { return device.backend->name() != "reference"; });
  }

  const StepsToVerify& steps_;
  const VerificationRequest& request_;
  VerificationResult result_;
};

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
  stopped.steps_to_compare = StepsToCompare(request);
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

int ExitCodeOf(const VerificationResult& result) {
  if (result.interrupted) return static_cast<int>(ErrorCategory::kInterrupted);
  return result.equal ? 0 : static_cast<int>(ErrorCategory::kCheckFailed);
}

absl::StatusOr<VerificationResult> VerifySteps(const StepsToVerify& steps,
                                               const VerificationRequest& wanted) {
  ASSIGN_OR_RETURN(const VerificationRequest request, WithMemory(wanted));
  return Verification(steps, request).Run();
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
