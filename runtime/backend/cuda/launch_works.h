#pragma once

#include <cuda_runtime_api.h>

#include "runtime/backend/cuda/elements/works.h"

namespace partita {

// Enqueue on a stream of the current device. The functors' pointers are to device memory.
cudaError_t LaunchElements(const ElementWork& work, cudaStream_t stream);
// A ConversionElement whose lies_in_order says so.
cudaError_t LaunchConversion(const Conversion& conversion, int64_t count, cudaStream_t stream);
// One whose is_usual says so; all its places are of 32 bits.
cudaError_t LaunchToBlocks(const ToBlocksElement& work, int64_t runs, cudaStream_t stream);
cudaError_t LaunchReduction(const ReductionWork& work, cudaStream_t stream);
cudaError_t LaunchTranspose(const TransposeWork& work, cudaStream_t stream);
cudaError_t LaunchMaxPool(const MaxPoolWork& work, cudaStream_t stream);

}  // namespace partita
