#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/backend/cuda/vendor_handles.h"

namespace partita {

// A product made ready for cuBLASLt: descriptors and algorithm.
class GemmRunner {
 public:
  // Pointers of later products are multiples of kAlignment bytes. The algorithm is the store's, or
  // else the fastest of those that the library suggests within kMostProductWorkspace, measured on zeros in
  // memory of its own and kept in the store; where there is no memory for that, the first. `blas`
  // outlives the runner. Waits for the device.
  static absl::StatusOr<std::unique_ptr<GemmRunner>> Prepare(const GemmShape& shape,
                                                             CublasLt* blas);
  ~GemmRunner();

  int64_t workspace_bytes() const { return choice_.workspace_bytes; }
  // Enqueues the product; by one thread at a time. `workspace` is aligned to kScratchAlignment.
  absl::Status Enqueue(const Gemm& gemm, void* workspace, cudaStream_t stream) const;

  static constexpr uint32_t kAlignment = 64;

 private:
  struct Choice {
    cublasLtMatmulAlgo_t algorithm = {};
    int64_t workspace_bytes = 0;
  };
  friend struct AlgorithmSearch;

  GemmRunner(const GemmShape& shape, CublasLt* blas) : shape_(shape), blas_(*blas) {}
  absl::Status Describe();
  absl::Status SetBias(const float* bias) const;
  absl::StatusOr<Choice> Choose() const;
  // Algorithm of a stored text; nullopt if the library does not have it for this shape.
  std::optional<Choice> Parsed(const std::string& text) const;
  static std::string TextOf(const Choice& choice);
  // Algorithms that the library suggests, in its order; never empty.
  absl::StatusOr<std::vector<Choice>> Candidates() const;
  std::optional<Trial<Gemm>> MakeTrial(const std::vector<Choice>& candidates) const;
  Choice Fastest(const std::vector<Choice>& candidates, const Trial<Gemm>& trial) const;
  absl::Status EnqueueBy(const Choice& choice, const Gemm& gemm, void* workspace,
                         cudaStream_t stream) const;

  const GemmShape shape_;
  CublasLt& blas_;
  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, c_ = nullptr;
  Choice choice_;
};

}  // namespace partita
