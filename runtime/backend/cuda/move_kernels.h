#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "runtime/backend/cuda/strided_box.h"

namespace partita {

// Kernels over device memory; they are enqueued on a stream of the current device.

enum class ElementType : uint8_t { kFloat32, kFloat64, kInt32, kRing64 };

struct DeviceMove {
  MoveOp op;
  ElementType type;
  const void* from;  // not read where the op is kZero
  void* to;
};

// Moves all elements of a box. Sums of ring elements wrap, their maximum compares them as signed.
cudaError_t LaunchMove(const DeviceMove& move, const StridedBox& box, cudaStream_t stream);

// *flag = 1 if any of `count` elements (kFloat32 or kFloat64) is NaN or infinite; else it stays.
// `flag` may be host memory that the device maps.
cudaError_t LaunchFiniteCheck(ElementType type, const void* data, int64_t count, int32_t* flag,
                              cudaStream_t stream);

}  // namespace partita
