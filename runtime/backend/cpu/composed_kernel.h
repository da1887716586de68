#pragma once

#include <memory>
#include <vector>

#include "runtime/backend/host/host_device.h"

namespace partita {

// A fused kernel that runs the kernels of its operators (StagesOf), one after the other, and keeps
// what they do not store in scratch.
std::unique_ptr<HostKernel> MakeComposedKernel(const KernelSignature& signature,
                                               std::vector<std::unique_ptr<Kernel>> stages);

}  // namespace partita
