#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "runtime/backend/cuda/strided_box.h"

namespace partita {

// Kernels over device memory; they are enqueued on a stream of the current device.

enum class ElementType : uint8_t { kFloat32, kFloat64, kInt32, kRing64 };

// All elements of a box. Sums of ring elements wrap, their maximum compares them as signed. `from`
// is not read where the op is kZero.
cudaError_t LaunchMove(MoveOp op, ElementType type, const StridedBox& box, const void* from,
                       void* to, cudaStream_t stream);

// *flag = 1 if any of `count` elements (kFloat32 or kFloat64) is NaN or infinite; else it stays.
// `flag` may be host memory that the device maps.
cudaError_t LaunchFiniteCheck(ElementType type, const void* data, int64_t count, int32_t* flag,
                              cudaStream_t stream);

}  // namespace partita
