#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "runtime/backend/cuda/conv_descriptors.h"

namespace partita {

// A convolution made ready for cuDNN: descriptors and algorithm.
class ConvolutionRunner {
 public:
  // The algorithm is the fastest deterministic one within kMostWorkspace, measured on zeros in
  // memory of its own; where there is no memory for that, the library's guess. It is remembered in
  // `cudnn`, which outlives the runner. Waits for the device.
  static absl::StatusOr<std::unique_ptr<ConvolutionRunner>> Prepare(const ConvolutionShape& shape,
                                                                    Cudnn* cudnn);

  int64_t workspace_bytes() const { return choice_.workspace_bytes; }
  // By one thread at a time. `workspace` is aligned to kScratchAlignment.
  absl::Status Enqueue(const Convolution& convolution, void* workspace, cudaStream_t stream) const;

 private:
  // One of the library's algorithms, as its three kinds of results say it.
  struct Candidate {
    int algorithm;
    cudnnStatus_t status;
    cudnnDeterminism_t determinism;
    cudnnMathType_t math;
  };
  // Device memory to measure with; nothing where there is none.
  struct Trial {
    Convolution convolution;
    void* workspace = nullptr;
    size_t workspace_bytes = 0;
  };

  ConvolutionRunner(const ConvolutionShape& shape, Cudnn* cudnn)
      : shape_(shape), cudnn_(*cudnn), descriptors_(cudnn) {}
  absl::StatusOr<ConvolutionChoice> Choose() const;
  absl::StatusOr<ConvolutionChoice> ChooseBy(const Trial* trial) const;
  absl::StatusOr<std::vector<Candidate>> Measured(const Trial& trial) const;
  absl::StatusOr<std::vector<Candidate>> Guessed() const;
  template <class Results>
  static std::vector<Candidate> Candidates(const Results& results, int count);
  absl::StatusOr<int64_t> WorkspaceBytes(int algorithm) const;
  absl::Status Run(const Convolution& convolution, const ConvolutionChoice& choice,
                   void* workspace) const;
  absl::Status RunFused(const Convolution& convolution, const ConvolutionChoice& choice,
                        void* workspace) const;

  const ConvolutionShape shape_;
  Cudnn& cudnn_;
  ConvolutionDescriptors descriptors_;
  ConvolutionChoice choice_;
};

}  // namespace partita
