#pragma once

#include <cuda_runtime_api.h>

#include "runtime/backend/cuda/elements/works.h"

namespace partita {

// Enqueue on a stream of the current device. The functors' pointers are to device memory.
cudaError_t LaunchElements(const ElementWork& work, cudaStream_t stream);
// As a ConversionElement whose lies_in_order says so.
cudaError_t LaunchConversion(const Conversion& conversion, int64_t count, cudaStream_t stream);
cudaError_t LaunchReduction(const ReductionWork& work, cudaStream_t stream);
cudaError_t LaunchTranspose(const TransposeWork& work, cudaStream_t stream);
cudaError_t LaunchMaxPool(const MaxPoolWork& work, cudaStream_t stream);

}  // namespace partita
