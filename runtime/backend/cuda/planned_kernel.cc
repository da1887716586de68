#include "runtime/backend/cuda/planned_kernel.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "graph/precision.h"
#include "graph/support/check.h"
#include "graph/support/status_macros.h"
#include "runtime/backend/cuda/cuda_status.h"
#include "runtime/backend/cuda/launch_works.h"

namespace partita {
namespace {

// Enqueues steps one after the other.
struct StepLauncher {
  const std::vector<std::unique_ptr<GemmRunner>>& products;
  const std::vector<std::unique_ptr<ConvolutionRunner>>& convolutions;
  void* workspace;
  cudaStream_t stream;
  size_t next_product = 0, next_convolution = 0;

  absl::Status operator()(const ElementWork& work) {
    return CudaStatus(LaunchElements(work, stream), "a kernel");
  }
  absl::Status operator()(const ReductionWork& work) {
    return CudaStatus(LaunchReduction(work, stream), "a reduction");
  }
  absl::Status operator()(const TransposeWork& work) {
    return CudaStatus(LaunchTranspose(work, stream), "a transposition");
  }
  absl::Status operator()(const MaxPoolWork& work) {
    return CudaStatus(LaunchMaxPool(work, stream), "a pooling");
  }
  absl::Status operator()(const Gemm& gemm) {
    CHECK(next_product < products.size()) << "a product that was not prepared";
    return products[next_product++]->Enqueue(gemm, workspace, stream);
  }
  absl::Status operator()(const Convolution& convolution) {
    CHECK(next_convolution < convolutions.size()) << "a convolution that was not prepared";
    return convolutions[next_convolution++]->Enqueue(convolution, workspace, stream);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> PlannedKernel::Prepare(
    const KernelSignature& signature, std::shared_ptr<VendorHandles> handles) {
  const Precision precision = signature.compute_type;
  std::vector<std::unique_ptr<PlannedKernel>> kernels;
  absl::Status refusal;  // of the first way that was refused
  for (KernelOptions options : WaysToPlan(precision)) {
    options.deterministic = signature.deterministic;
    if (!kernels.empty() && options.precision != precision) break;
    std::unique_ptr<PlannedKernel> kernel(new PlannedKernel(signature, options, handles));
    // Libraries call what they do not have unsupported, a bad parameter or an internal error.
    const absl::Status status = kernel->PrepareSteps();
    if (absl::IsResourceExhausted(status)) return status;
    refusal.Update(status);
    if (!status.ok()) continue;
    if (options.precision != precision) {
      kernel->note_ = absl::StrCat("compute in ", RowOf(options.precision).name, " instead of ",
                                   RowOf(precision).name, ": ", refusal.message());
    }
    kernels.push_back(std::move(kernel));
    if (kernels.back()->convolutions_.empty()) break;  // only they have several orders
  }
  if (kernels.empty()) return refusal;
  ASSIGN_OR_RETURN(const size_t fastest, Fastest(kernels));
  return std::move(kernels[fastest]);
}

absl::StatusOr<size_t> PlannedKernel::Fastest(
    const std::vector<std::unique_ptr<PlannedKernel>>& kernels) {
  if (kernels.size() == 1) return 0;
  ASSIGN_OR_RETURN(const Cudnn* cudnn, kernels[0]->handles_->cudnn());
  const std::string work = KernelWorkOf(kernels[0]->signature_);
  const auto text = [&](size_t k) {
    const KernelOptions& options = kernels[k]->options_;
    return absl::StrCat(options.channels_last ? "channels_last" : "channels_second",
                        options.blocks ? " blocks" : "");
  };
  const auto find = [&](const std::string& choice) {
    size_t k = 0;
    while (k < kernels.size() && text(k) != choice) ++k;
    return k;
  };
  const std::optional<std::string> known = cudnn->search.Find(work);
  if (known.has_value() && find(*known) < kernels.size()) return find(*known);
  size_t best = 0;
  double least = HUGE_VAL;
  for (size_t k = 0; k < kernels.size(); ++k) {
    const double ms = kernels[k]->Milliseconds(cudnn->search.trials);
    if (ms >= least) continue;
    least = ms;
    best = k;
  }
  const size_t kept = find(cudnn->search.Keep(work, text(best), known));
  return kept < kernels.size() ? kept : best;
}

double PlannedKernel::Milliseconds(TrialDevice* trials) const {
  if (trials == nullptr) return HUGE_VAL;
  WholePieces pieces = WholePiecesOf(signature_);
  std::vector<std::shared_ptr<void>> memory = {trials->Take(scratch_bytes(), 0)};
  for (std::vector<TensorArgument>* arguments : {&pieces.inputs, &pieces.outputs}) {
    const auto& tensors = arguments == &pieces.inputs ? signature_.inputs : signature_.outputs;
    for (size_t k = 0; k < tensors.size(); ++k) {
      memory.push_back(trials->Take(tensors[k].type.bytes(), 0));
      (*arguments)[k].data = tensors[k].present ? memory.back().get() : nullptr;
    }
  }
  for (const auto& piece : memory) {
    if (piece == nullptr) return HUGE_VAL;
  }
  const KernelArguments arguments{pieces.inputs, pieces.outputs, {}, 0};
  return trials
      ->Milliseconds(
          [&](cudaStream_t stream) { return Enqueue(arguments, memory[0].get(), stream); })
      .value_or(HUGE_VAL);
}

absl::Status PlannedKernel::PrepareSteps() {
  ASSIGN_OR_RETURN(plans_, LaunchPlans::Make(signature_, options_));
  plan_bytes_ = plans_->whole().scratch_bytes;
  for (const KernelStep& step : plans_->whole().steps) {
    if (const auto* gemm = std::get_if<Gemm>(&step)) {
      ASSIGN_OR_RETURN(CublasLt * blas, handles_->cublaslt());
      ASSIGN_OR_RETURN(auto runner, GemmRunner::Prepare(gemm->shape, blas));
      workspace_bytes_ = std::max(workspace_bytes_, runner->workspace_bytes());
      products_.push_back(std::move(runner));
    } else if (const auto* convolution = std::get_if<Convolution>(&step)) {
      ASSIGN_OR_RETURN(Cudnn * cudnn, handles_->cudnn());
      ASSIGN_OR_RETURN(auto runner, ConvolutionRunner::Prepare(convolution->shape, cudnn));
      workspace_bytes_ = std::max(workspace_bytes_, runner->workspace_bytes());
      convolutions_.push_back(std::move(runner));
    } else if (const auto* pooling = std::get_if<MaxPoolWork>(&step)) {
      RETURN_IF_ERROR(CudaStatus(PrepareMaxPool(*pooling), "a pooling"));
    }
  }
  return absl::OkStatus();
}

int64_t PlannedKernel::scratch_bytes() const {
  const int64_t bytes = plan_bytes_ + workspace_bytes_;
  return bytes == 0 ? 0 : bytes + kScratchAlignment;
}

absl::Status PlannedKernel::Enqueue(const KernelArguments& arguments, const LaunchMemory& memory,
                                    cudaStream_t stream) const {
  const auto start = reinterpret_cast<uintptr_t>(memory.scratch);
  constexpr auto kStep = static_cast<uintptr_t>(kScratchAlignment);
  auto* aligned = reinterpret_cast<char*>((start + kStep - 1) / kStep * kStep);
  ASSIGN_OR_RETURN(const LaunchPlan* plan, plans_->Of(arguments));
  StepLauncher launcher{products_, convolutions_, aligned + plan_bytes_, stream};
  return plan->ForEachStep(arguments, {aligned, memory.numbers}, launcher);
}

}  // namespace partita
