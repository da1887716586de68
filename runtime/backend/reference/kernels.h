#pragma once

#include "absl/status/status.h"
#include "graph/task/kernel_signature.h"
#include "runtime/backend/kernel_arguments.h"

namespace partita {

// Runs one kernel of the reference backend, now, on the calling thread: plain loops that say what
// every operator means. Every format is row-major here. Outputs are overwritten; one may share an
// input's buffer where the operator's InPlace says so. The arithmetic follows from the types: the
// ring if any tensor is kRing64, else float if any is kFloat32, else double (see arithmetic.h).
// Thread safe. Internal if arguments and signature disagree.
absl::Status RunReferenceKernel(const KernelSignature& signature, const KernelArguments& arguments);

}  // namespace partita
