#pragma once

#include "runtime/backend/cuda/plan/kernel_steps.h"

namespace partita {

// Type that counts elements: the kernels' own choice, or 64 bits always.
enum class HostIndex { kChosen, kLarge };

// Carries out a plan of the cuda backend on the host: the functors that its kernels call, in the
// order in which they add; products and convolutions in plain loops over what the plan says.
void RunOnHost(const KernelSteps& plan);
void RunOnHost(const KernelStep& step, HostIndex index = HostIndex::kChosen);

}  // namespace partita
