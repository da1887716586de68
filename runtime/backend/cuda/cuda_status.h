#pragma once

#include <cuda_runtime_api.h>

#include "absl/status/status.h"

namespace partita {

// OK, or what failed and CUDA's reason: ResourceExhausted for lack of memory, Unavailable where
// there is no device or driver, Internal otherwise. Clears the error if later calls may go on.
absl::Status CudaStatus(cudaError_t code, const char* what);

}  // namespace partita
