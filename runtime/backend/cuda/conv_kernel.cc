#include "runtime/backend/cuda/conv_kernel.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"
#include "runtime/backend/cuda/cuda_status.h"
#include "runtime/backend/cuda/launch_works.h"

namespace partita {
namespace {

constexpr int kMostAlgorithms = 24;  // the library knows some ten of each kind, twice by math type
constexpr float kOne = 1, kZero = 0;

size_t BytesOf(const std::array<int64_t, 4>& extents) {
  return static_cast<size_t>(extents[0] * extents[1] * extents[2] * extents[3]) * sizeof(float);
}

// Zeroed device memory, freed at the end.
class TrialMemory {
 public:
  ~TrialMemory() {
    for (void* piece : pieces_) cudaFree(piece);
  }
  // Null where there is not enough.
  void* Take(size_t bytes) {
    void* data = nullptr;
    if (cudaMalloc(&data, std::max<size_t>(bytes, 1)) != cudaSuccess) {
      (void)cudaGetLastError();
      return nullptr;
    }
    pieces_.push_back(data);
    return cudaMemset(data, 0, bytes) == cudaSuccess ? data : nullptr;
  }

 private:
  std::vector<void*> pieces_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ConvolutionRunner>> ConvolutionRunner::Prepare(
    const ConvolutionShape& shape, Cudnn* cudnn) {
  std::unique_ptr<ConvolutionRunner> runner(new ConvolutionRunner(shape, cudnn));
  RETURN_IF_ERROR(runner->descriptors_.Describe(shape));
  std::lock_guard lock(cudnn->mutex);
  const auto known = cudnn->choices.find(shape);
  if (known != cudnn->choices.end()) {
    runner->choice_ = known->second;
  } else {
    ASSIGN_OR_RETURN(runner->choice_, runner->Choose());
    cudnn->choices.emplace(shape, runner->choice_);
  }
  RETURN_IF_ERROR(runner->descriptors_.SetMath(runner->choice_.math));
  return runner;
}

absl::Status ConvolutionRunner::Enqueue(const Convolution& convolution, void* workspace,
                                        cudaStream_t stream) const {
  {
    std::lock_guard lock(cudnn_.mutex);
    RETURN_IF_ERROR(
        cudnn_.Check(cudnn_.f.cudnnSetStream(cudnn_.handle, stream), "choosing a stream"));
    if (choice_.fused) return RunFused(convolution, choice_, workspace);
    RETURN_IF_ERROR(Run(convolution, choice_, workspace));
  }
  return CudaStatus(LaunchElements(convolution.epilogue, stream), "a bias");
}

absl::StatusOr<ConvolutionChoice> ConvolutionRunner::Choose() const {
  const bool may_round = shape_.precision != Precision::kFloat32;
  RETURN_IF_ERROR(
      cudnn_.Check(cudnn_.f.cudnnSetStream(cudnn_.handle, nullptr), "choosing a stream"));
  RETURN_IF_ERROR(descriptors_.SetMath(may_round ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH));
  TrialMemory memory;
  Trial trial;
  trial.convolution.x = memory.Take(BytesOf(shape_.x));
  trial.convolution.w = memory.Take(BytesOf(shape_.w));
  trial.convolution.y = memory.Take(BytesOf(shape_.y));
  trial.convolution.bias =
      static_cast<const float*>(memory.Take(static_cast<size_t>(shape_.y[1]) * sizeof(float)));
  trial.workspace_bytes = static_cast<size_t>(kMostWorkspace);
  while (trial.workspace == nullptr && trial.workspace_bytes >= (size_t{1} << 20)) {
    trial.workspace = memory.Take(trial.workspace_bytes);
    if (trial.workspace == nullptr) trial.workspace_bytes /= 2;
  }
  const Convolution& c = trial.convolution;
  const bool enough = c.x != nullptr && c.w != nullptr && c.y != nullptr && c.bias != nullptr &&
                      trial.workspace != nullptr;
  if (!enough) return ChooseBy(nullptr);
  auto choice = ChooseBy(&trial);
  RETURN_IF_ERROR(CudaStatus(cudaStreamSynchronize(nullptr), "measuring a convolution"));
  if (!choice.ok()) choice = ChooseBy(nullptr);  // what cannot be measured may still run
  return choice;
}

// The first that the library says it can run, in its order, whose bits do not change from run to
// run.
absl::StatusOr<ConvolutionChoice> ConvolutionRunner::ChooseBy(const Trial* trial) const {
  ASSIGN_OR_RETURN(const std::vector<Candidate> candidates,
                   trial != nullptr ? Measured(*trial) : Guessed());
  const auto most =
      trial != nullptr ? static_cast<int64_t>(trial->workspace_bytes) : kMostWorkspace;
  for (const Candidate& candidate : candidates) {
    if (candidate.status != CUDNN_STATUS_SUCCESS) continue;
    if (candidate.determinism != CUDNN_DETERMINISTIC) continue;
    ConvolutionChoice choice;
    choice.algorithm = candidate.algorithm;
    choice.math = shape_.precision == Precision::kFloat32 ? CUDNN_FMA_MATH : candidate.math;
    RETURN_IF_ERROR(descriptors_.SetMath(choice.math));
    const auto bytes = WorkspaceBytes(choice.algorithm);
    if (!bytes.ok() || *bytes > most) continue;
    choice.workspace_bytes = *bytes;
    if (trial == nullptr) return choice;
    if (!Run(trial->convolution, choice, trial->workspace).ok()) continue;
    choice.fused = shape_.bias && RunFused(trial->convolution, choice, trial->workspace).ok();
    return choice;
  }
  return absl::UnimplementedError(absl::StrCat(
      "cuDNN has no deterministic algorithm within ", most, " bytes for a convolution of [",
      shape_.x[0], ",", shape_.x[1], ",", shape_.x[2], ",", shape_.x[3], "] by [", shape_.w[0], ",",
      shape_.w[1], ",", shape_.w[2], ",", shape_.w[3], "]"));
}

template <class Results>
std::vector<ConvolutionRunner::Candidate> ConvolutionRunner::Candidates(const Results& results,
                                                                        int count) {
  std::vector<Candidate> candidates;
  for (int k = 0; k < count; ++k) {
    const auto& result = results[static_cast<size_t>(k)];
    candidates.push_back(
        {static_cast<int>(result.algo), result.status, result.determinism, result.mathType});
  }
  return candidates;
}

absl::StatusOr<std::vector<ConvolutionRunner::Candidate>> ConvolutionRunner::Measured(
    const Trial& t) const {
  const ConvolutionDescriptors& d = descriptors_;
  const Convolution& c = t.convolution;
  int count = 0;
  switch (shape_.pass) {
    case ConvolutionPass::kForward: {
      std::array<cudnnConvolutionFwdAlgoPerf_t, kMostAlgorithms> results = {};
      RETURN_IF_ERROR(
          cudnn_.Check(cudnn_.f.cudnnFindConvolutionForwardAlgorithmEx(
                           cudnn_.handle, d.x, c.x, d.w, c.w, d.convolution, d.y, c.y,
                           kMostAlgorithms, &count, results.data(), t.workspace, t.workspace_bytes),
                       "measuring a convolution"));
      return Candidates(results, count);
    }
    case ConvolutionPass::kData: {
      std::array<cudnnConvolutionBwdDataAlgoPerf_t, kMostAlgorithms> results = {};
      RETURN_IF_ERROR(
          cudnn_.Check(cudnn_.f.cudnnFindConvolutionBackwardDataAlgorithmEx(
                           cudnn_.handle, d.w, c.w, d.y, c.y, d.convolution, d.x, c.x,
                           kMostAlgorithms, &count, results.data(), t.workspace, t.workspace_bytes),
                       "measuring a convolution's gradient"));
      return Candidates(results, count);
    }
    case ConvolutionPass::kFilter:
      break;
  }
  std::array<cudnnConvolutionBwdFilterAlgoPerf_t, kMostAlgorithms> results = {};
  RETURN_IF_ERROR(
      cudnn_.Check(cudnn_.f.cudnnFindConvolutionBackwardFilterAlgorithmEx(
                       cudnn_.handle, d.x, c.x, d.y, c.y, d.convolution, d.w, c.w, kMostAlgorithms,
                       &count, results.data(), t.workspace, t.workspace_bytes),
                   "measuring a convolution's gradient"));
  return Candidates(results, count);
}

absl::StatusOr<std::vector<ConvolutionRunner::Candidate>> ConvolutionRunner::Guessed() const {
  const ConvolutionDescriptors& d = descriptors_;
  int count = 0;
  switch (shape_.pass) {
    case ConvolutionPass::kForward: {
      std::array<cudnnConvolutionFwdAlgoPerf_t, kMostAlgorithms> results = {};
      RETURN_IF_ERROR(cudnn_.Check(
          cudnn_.f.cudnnGetConvolutionForwardAlgorithm_v7(
              cudnn_.handle, d.x, d.w, d.convolution, d.y, kMostAlgorithms, &count, results.data()),
          "choosing a convolution"));
      return Candidates(results, count);
    }
    case ConvolutionPass::kData: {
      std::array<cudnnConvolutionBwdDataAlgoPerf_t, kMostAlgorithms> results = {};
      RETURN_IF_ERROR(cudnn_.Check(
          cudnn_.f.cudnnGetConvolutionBackwardDataAlgorithm_v7(
              cudnn_.handle, d.w, d.y, d.convolution, d.x, kMostAlgorithms, &count, results.data()),
          "choosing a convolution's gradient"));
      return Candidates(results, count);
    }
    case ConvolutionPass::kFilter:
      break;
  }
  std::array<cudnnConvolutionBwdFilterAlgoPerf_t, kMostAlgorithms> results = {};
  RETURN_IF_ERROR(cudnn_.Check(
      cudnn_.f.cudnnGetConvolutionBackwardFilterAlgorithm_v7(
          cudnn_.handle, d.x, d.y, d.convolution, d.w, kMostAlgorithms, &count, results.data()),
      "choosing a convolution's gradient"));
  return Candidates(results, count);
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

absl::Status ConvolutionRunner::Run(const Convolution& c, const ConvolutionChoice& choice,
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
absl::Status ConvolutionRunner::RunFused(const Convolution& c, const ConvolutionChoice& choice,
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
