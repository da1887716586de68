#pragma once

#include <vector>

#include "tests/conformance/operator_runner.h"

namespace partita {

// Kernels that begin with this one, of one operator, and do others after it (KernelSignature::
// fusion): all that Partition can make of it.
std::vector<WholeKernel> FusedKernels(const WholeKernel& first);

}  // namespace partita
