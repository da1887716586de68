#pragma once

#include <memory>

#include "runtime/backend/host/host_device.h"

namespace partita {

// Computes a linear layer's weight gradient and updates the weight with it at once (EndsInUpdate),
// by SGD, tile by tile in registers, so that the gradient need not go through memory: for products
// with few rows, where memory is what takes the time. Null for other kernels.
std::unique_ptr<HostKernel> MakeFusedSgdProduct(const KernelSignature& signature);

}  // namespace partita
