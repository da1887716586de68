#include "runtime/backend/cuda/move_kernels.h"

#include "runtime/backend/cuda/elements/read_first.h"

namespace partita {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 4096;  // beyond it, threads take several elements

// Elements are counted by Int: see WithIndex.
template <class T, class Int>
__global__ void __launch_bounds__(kThreads)
    MoveAll(MoveOp op, const __grid_constant__ StridedBox box, const T* from, T* to) {
  const auto count = static_cast<Int>(box.elements), step = static_cast<Int>(gridDim.x) * kThreads;
  for (Int i = static_cast<Int>(blockIdx.x) * kThreads + static_cast<Int>(threadIdx.x); i < count;
       i += step) {
    MoveElement(op, box, from, to, i);
  }
}

template <class T>
cudaError_t Launch(const DeviceMove& move, const StridedBox& box, cudaStream_t stream) {
  WithIndex(box.elements, [&](auto zero) {
    MoveAll<T, decltype(zero)>
        <<<BlocksFor(box.elements, kThreads, kMostBlocks), kThreads, 0, stream>>>(
            move.op, box, static_cast<const T*>(move.from), static_cast<T*>(move.to));
  });
  return cudaGetLastError();
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    CheckAll(const T* __restrict__ data, int64_t count, int32_t* __restrict__ flag) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    if (!isfinite(data[i])) *flag = 1;
  }
}

}  // namespace

cudaError_t LaunchMove(const DeviceMove& move, const StridedBox& box, cudaStream_t stream) {
  if (box.elements == 0) return cudaSuccess;
  switch (move.type) {
    case ElementType::kFloat32:
      return Launch<float>(move, box, stream);
    case ElementType::kFloat64:
      return Launch<double>(move, box, stream);
    case ElementType::kInt32:
      return Launch<int32_t>(move, box, stream);
    case ElementType::kRing64:
      if (move.op == MoveOp::kMax) return Launch<int64_t>(move, box, stream);
      return Launch<uint64_t>(move, box, stream);
  }
  return cudaErrorInvalidValue;
}

cudaError_t LaunchFiniteCheck(ElementType type, const void* data, int64_t count, int32_t* flag,
                              cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  if (type == ElementType::kFloat32) {
    CheckAll<<<BlocksFor(count, kThreads, kMostBlocks), kThreads, 0, stream>>>(
        static_cast<const float*>(data), count, flag);
  } else if (type == ElementType::kFloat64) {
    CheckAll<<<BlocksFor(count, kThreads, kMostBlocks), kThreads, 0, stream>>>(
        static_cast<const double*>(data), count, flag);
  } else {
    return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

}  // namespace partita
