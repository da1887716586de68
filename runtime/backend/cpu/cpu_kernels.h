#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "runtime/backend/host/host_device.h"

namespace partita {

// Kernels of the CPU backend, one function for each family. Each returns null where it has no
// kernel of its own for this signature (a type other than float32, an empty piece, a rare shape):
// the reference kernel then serves.

std::unique_ptr<HostKernel> MakeConvKernel(const Conv2d& conv, const KernelSignature& signature);
std::unique_ptr<HostKernel> MakeMatMulKernel(const MatMul& matmul,
                                             const KernelSignature& signature);
std::unique_ptr<HostKernel> MakeBatchMatMulKernel(const BatchMatMul& matmul,
                                                  const KernelSignature& signature);
std::unique_ptr<HostKernel> MakeLayerNormKernel(const LayerNorm& norm,
                                                const KernelSignature& signature);
std::unique_ptr<HostKernel> MakePoolKernel(const Pool2d& pool, const KernelSignature& signature);
std::unique_ptr<HostKernel> MakeReluKernel(const Relu& relu, const KernelSignature& signature);
std::unique_ptr<HostKernel> MakeUnaryKernel(const Unary& unary, const KernelSignature& signature);
std::unique_ptr<HostKernel> MakeEmbeddingKernel(const KernelSignature& signature);
std::unique_ptr<HostKernel> MakeLstmGatesKernel(const LstmGates& gates,
                                                const KernelSignature& signature);
std::unique_ptr<HostKernel> MakeBinaryKernel(const Binary& binary,
                                             const KernelSignature& signature);
std::unique_ptr<HostKernel> MakeReshapeKernel(const Reshape& reshape,
                                              const KernelSignature& signature);
std::unique_ptr<HostKernel> MakeSgdKernel(const Sgd& sgd, const KernelSignature& signature);
std::unique_ptr<HostKernel> MakeAdamKernel(const KernelSignature& signature);
std::unique_ptr<HostKernel> MakeBatchMomentsKernel(const BatchMoments& norm,
                                                   const KernelSignature& signature);
std::unique_ptr<HostKernel> MakeBatchNormalizeKernel(const BatchNormalize& norm,
                                                     const KernelSignature& signature);
std::unique_ptr<HostKernel> MakeBatchNormGradMomentsKernel(const BatchNormGradMoments& norm,
                                                           const KernelSignature& signature);
std::unique_ptr<HostKernel> MakeBatchNormGradApplyKernel(const BatchNormGradApply& norm,
                                                         const KernelSignature& signature);

std::unique_ptr<HostKernel> MakeCrossEntropyGradKernel(const CrossEntropyGrad& loss,
                                                       const KernelSignature& signature);

// Batch normalisation in one kernel (KernelSignature::fusion), forward or backward: the sums of a
// few channels, then what is done with them, while these channels are in cache.
std::unique_ptr<HostKernel> MakeFusedBatchNormKernel(const KernelSignature& signature);
// The mean cross-entropy in one kernel: maximum, sum of exponentials and loss row by row.
std::unique_ptr<HostKernel> MakeFusedSoftmaxKernel(const KernelSignature& signature);

// y = max(x, 0) on the calling thread's team; NaN stays NaN. y may be x.
void Rectify(const float* x, float* y, int64_t elements);

// Whether every present tensor is float32 and none is empty.
bool IsPlainFloat(const KernelSignature& signature);

}  // namespace partita
