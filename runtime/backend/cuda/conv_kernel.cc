#include "runtime/backend/cuda/conv_kernel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"
#include "runtime/backend/cuda/cuda_status.h"
#include "runtime/backend/cuda/launch_works.h"

namespace partita {
namespace {

constexpr int kMostAlgorithms = 24;  // the library knows some ten of each kind, twice by math type
constexpr float kOne = 1, kZero = 0;

// Math type that lets the library use what the precision allows, and nothing less precise.
cudnnMathType_t MathOf(Precision precision) {
  return precision == Precision::kFloat32 ? CUDNN_FMA_MATH
         : precision == Precision::kTf32  ? CUDNN_DEFAULT_MATH
                                          : CUDNN_TENSOR_OP_MATH;
}

// Winograd's transforms of tiles for windows larger than 3x3 lose some three digits (seen with cuDNN
// 9.19 on an H200).
template <class Algorithm>
bool IsPreciseEnough(const ConvolutionShape& s, Algorithm algorithm) {
  const bool small = s.w[2] <= 3 && s.w[3] <= 3;
  if constexpr (std::is_same_v<Algorithm, cudnnConvolutionFwdAlgo_t>) {
    return small || algorithm != CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED;
  } else if constexpr (std::is_same_v<Algorithm, cudnnConvolutionBwdDataAlgo_t>) {
    return small || algorithm != CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED;
  } else {
    return small || algorithm != CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED;
  }
}

// Whether the library may do bias and ReLU in the call of the convolution. Without an activation it
// is documented for one algorithm only.
bool CanFuse(const ConvolutionShape& s, int algorithm) {
  return s.bias && (s.relu || algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM);
}

// What does bias and ReLU where the library does not.
ElementWork EpilogueOf(const ConvolutionShape& s, const Convolution& convolution) {
  return ElementWork::Of(VolumeOf(s.y),
                         BiasElement{convolution.bias, static_cast<float*>(convolution.y),
                                     Divisor::Of(s.y[2] * s.y[3]), Divisor::Of(s.y[1]), s.relu});
}

}  // namespace

absl::StatusOr<std::unique_ptr<ConvolutionRunner>> ConvolutionRunner::Prepare(
    const ConvolutionShape& shape, Cudnn* cudnn) {
  std::unique_ptr<ConvolutionRunner> runner(new ConvolutionRunner(shape, cudnn));
  RETURN_IF_ERROR(runner->descriptors_.Describe(shape));
  std::lock_guard lock(cudnn->mutex);
  ASSIGN_OR_RETURN(runner->choice_, cudnn->search.Choose(*runner, WorkOf(shape)));
  RETURN_IF_ERROR(runner->descriptors_.SetMath(runner->choice_.math));
  return runner;
}

absl::Status ConvolutionRunner::Enqueue(const Convolution& convolution, void* workspace,
                                        cudaStream_t stream) const {
  std::lock_guard lock(cudnn_.mutex);
  return EnqueueBy(choice_, convolution, workspace, stream);
}

absl::Status ConvolutionRunner::EnqueueBy(const Choice& choice, const Convolution& convolution,
                                          void* workspace, cudaStream_t stream) const {
  RETURN_IF_ERROR(
      cudnn_.Check(cudnn_.f.cudnnSetStream(cudnn_.handle, stream), "choosing a stream"));
  if (choice.fused) return RunFused(convolution, choice, workspace);
  RETURN_IF_ERROR(Run(convolution, choice, workspace));
  return CudaStatus(LaunchElements(convolution.epilogue, stream), "a bias");
}

std::string ConvolutionRunner::TextOf(const Choice& choice) {
  return absl::StrCat("algorithm=", choice.algorithm, " math=", static_cast<int>(choice.math),
                      " workspace=", choice.workspace_bytes, " fused=", choice.fused,
                      " keeps_nan=", choice.keeps_nan);
}

// Nothing where the library, asked for the workspace, knows no such choice.
std::optional<ConvolutionRunner::Choice> ConvolutionRunner::Parsed(const std::string& text) const {
  const auto algorithm = NumberNamed("algorithm", text, kMostAlgorithms);
  const auto math = NumberNamed("math", text, CUDNN_FMA_MATH);
  const auto workspace = NumberNamed("workspace", text, kMostWorkspace);
  const auto fused = NumberNamed("fused", text, 1);
  const auto keeps_nan = NumberNamed("keeps_nan", text, 1);
  if (!algorithm || !math || !workspace || !fused || !keeps_nan) return std::nullopt;
  if (*fused == 1 && !CanFuse(shape_, static_cast<int>(*algorithm))) return std::nullopt;
  Choice choice{static_cast<int>(*algorithm), static_cast<cudnnMathType_t>(*math), *workspace,
                *fused == 1, *keeps_nan == 1};
  if (shape_.precision == Precision::kFloat32) choice.math = CUDNN_FMA_MATH;
  if (!descriptors_.SetMath(choice.math).ok()) return std::nullopt;
  const auto bytes = WorkspaceBytes(choice.algorithm);
  if (!bytes.ok() || *bytes > choice.workspace_bytes) return std::nullopt;
  return choice;
}

std::optional<Trial<Convolution>> ConvolutionRunner::MakeTrial(
    const std::vector<Choice>& candidates) const {
  if (cudnn_.search.trials == nullptr) return std::nullopt;
  int64_t most = 0;
  for (const Choice& candidate : candidates) most = std::max(most, candidate.workspace_bytes);
  Trial<Convolution> trial;
  for (int64_t bytes : {4 * VolumeOf(shape_.x), 4 * VolumeOf(shape_.w), 4 * VolumeOf(shape_.y),
                        4 * shape_.y[1], most}) {
    trial.memory.push_back(cudnn_.search.trials->Take(bytes, 0));
    if (trial.memory.back() == nullptr) return std::nullopt;
  }
  Convolution& c = trial.work;
  c.shape = shape_;
  c.x = trial.memory[0].get();
  c.w = trial.memory[1].get();
  c.y = trial.memory[2].get();
  c.bias = shape_.bias ? static_cast<const float*>(trial.memory[3].get()) : nullptr;
  trial.workspace = trial.memory[4];
  if (shape_.bias || shape_.relu) c.epilogue = EpilogueOf(shape_, c);
  return trial;
}

// The first of them where none can be measured.
ConvolutionRunner::Choice ConvolutionRunner::Fastest(const std::vector<Choice>& candidates,
                                                     const Trial<Convolution>& trial) const {
  std::vector<std::pair<double, Choice>> by_time;
  for (const Choice& candidate : candidates) {
    for (bool fused : {false, true}) {
      if (fused && !CanFuse(shape_, candidate.algorithm)) continue;
      Choice choice = candidate;
      choice.fused = fused;
      if (!descriptors_.SetMath(choice.math).ok()) continue;
      const auto ms = cudnn_.search.trials->Milliseconds([&](cudaStream_t stream) {
        return EnqueueBy(choice, trial.work, trial.workspace.get(), stream);
      });
      if (ms.ok()) by_time.emplace_back(*ms, choice);
    }
  }
  std::stable_sort(by_time.begin(), by_time.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [ms, choice] : by_time) {
    choice.keeps_nan = KeepsNotANumber(choice, trial);
    if (choice.keeps_nan) return choice;
  }
  return by_time.empty() ? candidates[0] : by_time[0].second;
}

// Some algorithms cut results off at float's range, with and without bias, and thus make numbers of
// what is none (seen with cuDNN 9.19 on an H100 and an H200): a step that diverges would go
// unnoticed.
bool ConvolutionRunner::KeepsNotANumber(const Choice& choice,
                                        const Trial<Convolution>& trial) const {
  constexpr int64_t kProbed = 4096;           // numbers of the result, at most
  constexpr unsigned char kNotANumber = 255;  // in every byte: of every type
  TrialDevice& trials = *cudnn_.search.trials;
  const Convolution& c = trial.work;
  const bool data = shape_.pass == ConvolutionPass::kData;
  const auto [operand, extents] = data ? std::pair(c.y, shape_.y) : std::pair(c.x, shape_.x);
  const NumberType type = TypeOf(shape_.precision);
  const int64_t probed = std::min(kProbed, VolumeOf(shape_.result()));
  std::vector<float> read(static_cast<size_t>(probed));  // of 4 bytes, which no type exceeds
  const bool ran = descriptors_.SetMath(choice.math).ok() &&
                   trials.Fill(operand, kNotANumber, BytesOf(type) * VolumeOf(extents)).ok() &&
                   trials.Fill(c.result(), 0, BytesOf(type) * probed).ok() &&
                   EnqueueBy(choice, c, trial.workspace.get(), nullptr).ok() &&
                   trials.Read(c.result(), BytesOf(type) * probed, read.data()).ok();
  if (!ran) return false;
  for (int64_t i = 0; i < probed; ++i) {
    if (!std::isfinite(LoadNumber(type, read.data(), i))) return true;
  }
  return false;
}

// A small part of what is free: other kernels and the model want memory, too.
int64_t ConvolutionRunner::MostWorkspace() const {
  constexpr int64_t kPart = 8;
  if (cudnn_.search.trials == nullptr) return kMostUntriedWorkspace;
  return std::min(kMostWorkspace, cudnn_.search.trials->FreeBytes() / kPart);
}

template <class Results>
std::vector<ConvolutionRunner::Choice> ConvolutionRunner::Usable(const Results& results,
                                                                 int count) const {
  std::vector<Choice> choices;
  const int64_t most = MostWorkspace();
  for (int k = 0; k < count; ++k) {
    const auto& result = results[static_cast<size_t>(k)];
    if (result.status != CUDNN_STATUS_SUCCESS) continue;
    if (shape_.deterministic && result.determinism != CUDNN_DETERMINISTIC) continue;
    if (!IsPreciseEnough(shape_, result.algo)) continue;
    Choice choice;
    choice.algorithm = static_cast<int>(result.algo);
    choice.math = shape_.precision == Precision::kFloat32 ? CUDNN_FMA_MATH : result.mathType;
    const bool again = std::any_of(choices.begin(), choices.end(), [&](const Choice& other) {
      return other.algorithm == choice.algorithm && other.math == choice.math;
    });
    if (again || !descriptors_.SetMath(choice.math).ok()) continue;
    const auto bytes = WorkspaceBytes(choice.algorithm);
    if (!bytes.ok() || *bytes > most) continue;
    choice.workspace_bytes = *bytes;
    choices.push_back(choice);
  }
  return choices;
}

absl::StatusOr<std::vector<ConvolutionRunner::Choice>> ConvolutionRunner::Candidates() const {
  const ConvolutionDescriptors& d = descriptors_;
  RETURN_IF_ERROR(descriptors_.SetMath(MathOf(shape_.precision)));
  const auto usable = [&](auto results, auto ask) -> absl::StatusOr<std::vector<Choice>> {
    int count = 0;
    RETURN_IF_ERROR(cudnn_.Check(ask(&count, results.data()), "choosing a convolution"));
    std::vector<Choice> choices = Usable(results, count);
    if (!choices.empty()) return choices;
    return absl::UnimplementedError(
        absl::StrCat("cuDNN has no ", shape_.deterministic ? "deterministic " : "",
                     "algorithm within ", MostWorkspace(), " bytes for a ", WorkOf(shape_)));
  };
  switch (shape_.pass) {
    case ConvolutionPass::kForward:
      return usable(std::array<cudnnConvolutionFwdAlgoPerf_t, kMostAlgorithms>(),
                    [&](int* count, auto* results) {
                      return cudnn_.f.cudnnGetConvolutionForwardAlgorithm_v7(
                          cudnn_.handle, d.x, d.w, d.convolution, d.y, kMostAlgorithms, count,
                          results);
                    });
    case ConvolutionPass::kData:
      return usable(std::array<cudnnConvolutionBwdDataAlgoPerf_t, kMostAlgorithms>(),
                    [&](int* count, auto* results) {
                      return cudnn_.f.cudnnGetConvolutionBackwardDataAlgorithm_v7(
                          cudnn_.handle, d.w, d.y, d.convolution, d.x, kMostAlgorithms, count,
                          results);
                    });
    case ConvolutionPass::kFilter:
      break;
  }
  return usable(std::array<cudnnConvolutionBwdFilterAlgoPerf_t, kMostAlgorithms>(),
                [&](int* count, auto* results) {
                  return cudnn_.f.cudnnGetConvolutionBackwardFilterAlgorithm_v7(
                      cudnn_.handle, d.x, d.y, d.convolution, d.w, kMostAlgorithms, count, results);
                });
}

absl::StatusOr<int64_t> ConvolutionRunner::WorkspaceBytes(int algorithm) const {
  const ConvolutionDescriptors& d = descriptors_;
  size_t bytes = 0;
  cudnnStatus_t code = CUDNN_STATUS_SUCCESS;
  switch (shape_.pass) {
    case ConvolutionPass::kForward:
      code = cudnn_.f.cudnnGetConvolutionForwardWorkspaceSize(
          cudnn_.handle, d.x, d.w, d.convolution, d.y,
          static_cast<cudnnConvolutionFwdAlgo_t>(algorithm), &bytes);
      break;
    case ConvolutionPass::kData:
      code = cudnn_.f.cudnnGetConvolutionBackwardDataWorkspaceSize(
          cudnn_.handle, d.w, d.y, d.convolution, d.x,
          static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm), &bytes);
      break;
    case ConvolutionPass::kFilter:
      code = cudnn_.f.cudnnGetConvolutionBackwardFilterWorkspaceSize(
          cudnn_.handle, d.x, d.y, d.convolution, d.w,
          static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm), &bytes);
      break;
  }
  RETURN_IF_ERROR(cudnn_.Check(code, "asking for a workspace"));
  return static_cast<int64_t>(bytes);
}

absl::Status ConvolutionRunner::Run(const Convolution& c, const Choice& choice,
                                    void* workspace) const {
  const ConvolutionDescriptors& d = descriptors_;
  const auto bytes = static_cast<size_t>(choice.workspace_bytes);
  switch (shape_.pass) {
    case ConvolutionPass::kForward:
      return cudnn_.Check(
          cudnn_.f.cudnnConvolutionForward(cudnn_.handle, &kOne, d.x, c.x, d.w, c.w, d.convolution,
                                           static_cast<cudnnConvolutionFwdAlgo_t>(choice.algorithm),
                                           workspace, bytes, &kZero, d.y, c.y),
          "a convolution");
    case ConvolutionPass::kData:
      return cudnn_.Check(cudnn_.f.cudnnConvolutionBackwardData(
                              cudnn_.handle, &kOne, d.w, c.w, d.y, c.y, d.convolution,
                              static_cast<cudnnConvolutionBwdDataAlgo_t>(choice.algorithm),
                              workspace, bytes, &kZero, d.x, c.x),
                          "a convolution's gradient by its input");
    case ConvolutionPass::kFilter:
      break;
  }
  return cudnn_.Check(cudnn_.f.cudnnConvolutionBackwardFilter(
                          cudnn_.handle, &kOne, d.x, c.x, d.y, c.y, d.convolution,
                          static_cast<cudnnConvolutionBwdFilterAlgo_t>(choice.algorithm), workspace,
                          bytes, &kZero, d.w, c.w),
                      "a convolution's gradient by its weights");
}

// y = activation(convolution + bias); the summand z that the call has, too, counts 0 times.
absl::Status ConvolutionRunner::RunFused(const Convolution& c, const Choice& choice,
                                         void* workspace) const {
  const ConvolutionDescriptors& d = descriptors_;
  return cudnn_.Check(cudnn_.f.cudnnConvolutionBiasActivationForward(
                          cudnn_.handle, &kOne, d.x, c.x, d.w, c.w, d.convolution,
                          static_cast<cudnnConvolutionFwdAlgo_t>(choice.algorithm), workspace,
                          static_cast<size_t>(choice.workspace_bytes), &kZero, d.y, c.y, d.bias,
                          c.bias, d.activation, d.y, c.y),
                      "a convolution with bias");
}

}  // namespace partita
