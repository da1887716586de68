#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/backend/cuda/conv_descriptors.h"

namespace partita {

// A convolution made ready for cuDNN: descriptors and algorithm.
class ConvolutionRunner {
 public:
  // The algorithm is the fastest within MostWorkspace whose bits do not change from run to run, if
  // the shape is deterministic, and that keeps what is not a number: the store's, or else measured on
  // zeros in memory of its own and kept in the store; where there is no memory for that, the library's
  // guess, which is kept, too, as one that was not tried. `cudnn` outlives the runner. Waits for the
  // device.
  static absl::StatusOr<std::unique_ptr<ConvolutionRunner>> Prepare(const ConvolutionShape& shape,
                                                                    Cudnn* cudnn);

  int64_t workspace_bytes() const { return choice_.workspace_bytes; }
  // Enqueues the convolution; by one thread at a time. `workspace` is aligned to kScratchAlignment.
  absl::Status Enqueue(const Convolution& convolution, void* workspace, cudaStream_t stream) const;

 private:
  // Algorithm by which the convolution is run.
  struct Choice {
    int algorithm = 0;  // algorithm of the pass: cudnnConvolution{Fwd,BwdData,BwdFilter}Algo_t
    cudnnMathType_t math = CUDNN_FMA_MATH;
    int64_t workspace_bytes = 0;
    bool fused = false;      // the library does bias and activation in the same call
    bool keeps_nan = false;  // tried, with success
  };
  friend struct AlgorithmSearch;

  ConvolutionRunner(const ConvolutionShape& shape, Cudnn* cudnn)
      : shape_(shape), cudnn_(*cudnn), descriptors_(cudnn) {}
  std::optional<Choice> Parsed(const std::string& text) const;
  static std::string TextOf(const Choice& choice);
  // Algorithms to choose from, in the library's order; never empty.
  absl::StatusOr<std::vector<Choice>> Candidates() const;
  std::optional<Trial<Convolution>> MakeTrial(const std::vector<Choice>& candidates) const;
  Choice Fastest(const std::vector<Choice>& candidates, const Trial<Convolution>& trial) const;
  bool KeepsNotANumber(const Choice& choice, const Trial<Convolution>& trial) const;
  // Bytes that an algorithm may take.
  int64_t MostWorkspace() const;
  template <class Results>
  std::vector<Choice> Usable(const Results& results, int count) const;
  absl::StatusOr<int64_t> WorkspaceBytes(int algorithm) const;
  absl::Status EnqueueBy(const Choice& choice, const Convolution& convolution, void* workspace,
                         cudaStream_t stream) const;
  absl::Status Run(const Convolution& convolution, const Choice& choice, void* workspace) const;
  absl::Status RunFused(const Convolution& convolution, const Choice& choice,
                        void* workspace) const;

  const ConvolutionShape shape_;
  Cudnn& cudnn_;
  ConvolutionDescriptors descriptors_;
  Choice choice_;
};

}  // namespace partita
