#pragma once

#include <cuda_runtime_api.h>

#include "runtime/backend/cuda/elements/works.h"

namespace partita {

// Enqueue on a stream of the current device. Works' pointers are to device memory.
cudaError_t LaunchElements(const ElementWork& work, cudaStream_t stream);
// The kernel of a ConversionElement whose suits_vectors says so.
cudaError_t LaunchConversion(const Conversion& conversion, const ElementWork& work,
                             cudaStream_t stream);
// The kernel of a ToBlocksElement whose is_usual says so; all its places are of 32 bits.
cudaError_t LaunchToBlocks(const ToBlocksElement& functor, const ElementWork& work,
                           cudaStream_t stream);
cudaError_t LaunchReduction(const ReductionWork& work, cudaStream_t stream);
cudaError_t LaunchTranspose(const TransposeWork& work, cudaStream_t stream);
// Lets the current device run it; once before the first launch.
cudaError_t PrepareMaxPool(const MaxPoolWork& work);
cudaError_t LaunchMaxPool(const MaxPoolWork& work, cudaStream_t stream);

}  // namespace partita
