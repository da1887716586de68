#pragma once

#include <memory>

#include "runtime/backend/host/host_device.h"

namespace partita {

// Whether some tensor of the kernel is in native format.
bool HasNative(const KernelSignature& signature);

// The same kernel with every tensor dense.
KernelSignature DenseSignature(const KernelSignature& signature);

// Runs a kernel for dense pieces on native ones: they are copied to row-major scratch and back.
std::unique_ptr<HostKernel> MakeDenseAdapter(const KernelSignature& signature,
                                             std::unique_ptr<HostKernel> dense);

// Channels-last float data of [n, c, h, w], the native order, to row-major or back.
void CopyOrder(const Shape& shape, const float* from, float* to, bool to_dense);

}  // namespace partita
