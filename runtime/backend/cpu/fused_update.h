#pragma once

#include <memory>

#include "runtime/backend/host/host_device.h"

namespace partita {

// Kernels that compute a weight's gradient and update the weight with it at once
// (KernelSignature::fused_update), so that the gradient need not go through memory.

// A linear layer's weight gradient into SGD, tile by tile in registers: for products with few rows,
// where memory is what takes the time. Null for other kernels.
std::unique_ptr<HostKernel> MakeFusedSgdProduct(const KernelSignature& signature);

// Composes a fused update for any other kernel: the gradient into scratch, then the update.
std::unique_ptr<HostKernel> ComposeFusedUpdate(const KernelSignature& signature,
                                               std::unique_ptr<Kernel> gradient,
                                               std::unique_ptr<Kernel> update);

}  // namespace partita
