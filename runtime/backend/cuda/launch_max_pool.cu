#include <algorithm>

#include "runtime/backend/cuda/launch_works.h"

namespace partita {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 1 << 20;

// A block's planes: x into shared memory; then the windows' maxima, or, class by class, their
// gradients, into dx there, and from there to where they belong.
__global__ void __launch_bounds__(kThreads)
    MaxPoolPlanes(const __grid_constant__ MaxPoolWork work) {
  extern __shared__ float shared[];
  float* const x = shared;
  float* const dx = shared + work.planes_of_block * work.x_plane;
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t step = static_cast<int64_t>(gridDim.x) * work.planes_of_block;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * work.planes_of_block; first < work.planes;
       first += step) {
    const int64_t left = work.planes - first;
    const int planes = left < work.planes_of_block ? static_cast<int>(left) : work.planes_of_block;
    const int elements = planes * work.x_plane, windows = planes * work.y_plane();
    const float* const from = work.x + first * work.x_plane;
#pragma unroll 8
    for (int i = thread; i < elements; i += kThreads) x[i] = from[i];
    if (work.dy == nullptr) {
      __syncthreads();
      float* const y = work.to + first * work.y_plane();
      for (int w = thread; w < windows; w += kThreads) y[w] = work.Maximum(w, x);
    } else {
      for (int i = thread; i < elements; i += kThreads) dx[i] = 0;
      __syncthreads();
      const float* const dy = work.dy + first * work.y_plane();
      const int of_class = planes * static_cast<int>(work.windows_of_class.value);
      for (int c = 0; c < work.classes(); ++c) {
        for (int k = thread; k < of_class; k += kThreads) work.AddGradient(c, k, x, dy, dx);
        __syncthreads();
      }
      float* const to = work.to + first * work.x_plane;
#pragma unroll 8
      for (int i = thread; i < elements; i += kThreads) to[i] = dx[i];
    }
    __syncthreads();
  }
}

}  // namespace

cudaError_t LaunchMaxPool(const MaxPoolWork& work, cudaStream_t stream) {
  const auto bytes = static_cast<int>(work.shared_bytes());
  if (bytes > (48 << 10)) {  // more than a kernel has without asking
    const cudaError_t code = cudaFuncSetAttribute(
        MaxPoolPlanes, cudaFuncAttributeMaxDynamicSharedMemorySize, MaxPoolWork::kMostPlaneBytes);
    if (code != cudaSuccess) return code;
  }
  const int64_t groups = (work.planes + work.planes_of_block - 1) / work.planes_of_block;
  const auto blocks = static_cast<unsigned>(std::min(kMostBlocks, groups));
  MaxPoolPlanes<<<blocks, kThreads, static_cast<size_t>(bytes), stream>>>(work);
  return cudaGetLastError();
}

}  // namespace partita
