#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "runtime/backend/cuda/vendor_handles.h"

namespace partita {

// A product made ready for cuBLASLt: descriptors and algorithm.
class GemmRunner {
 public:
  // Pointers of later products are multiples of kAlignment bytes. The algorithm is the first that
  // the library suggests for the shape within kMostWorkspace, remembered in `blas`, which outlives
  // the runner.
  static absl::StatusOr<std::unique_ptr<GemmRunner>> Prepare(const GemmShape& shape,
                                                             CublasLt* blas);
  ~GemmRunner();

  int64_t workspace_bytes() const { return choice_.workspace_bytes; }
  // By one thread at a time. `workspace` is aligned to kScratchAlignment.
  absl::Status Enqueue(const Gemm& gemm, void* workspace, cudaStream_t stream) const;

  static constexpr uint32_t kAlignment = 64;

 private:
  GemmRunner(const GemmShape& shape, CublasLt* blas) : shape_(shape), blas_(*blas) {}
  absl::Status Describe();
  absl::Status SetBias(const float* bias) const;
  absl::StatusOr<GemmChoice> Choose() const;

  const GemmShape shape_;
  CublasLt& blas_;
  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, c_ = nullptr;
  GemmChoice choice_;
};

}  // namespace partita
