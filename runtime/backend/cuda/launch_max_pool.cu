#include "runtime/backend/cuda/launch_works.h"

namespace partita {
namespace {

constexpr int kThreads = 256;
constexpr int kSharedWithoutAsking = 48 << 10;  // bytes that every kernel may have

__device__ int Thread() { return static_cast<int>(threadIdx.x); }

// A block's planes: x goes into shared memory, and the windows' maxima from there to y.
template <int kKernel>
__device__ void PoolPlanes(const MaxPoolWork& work, int64_t first, int planes, float* x) {
  const int windows = planes * work.y_plane();
  float* const y = work.to + first * work.y_plane();
  __syncthreads();
  for (int w = Thread(); w < windows; w += kThreads) y[w] = work.MaximumOf<kKernel>(w, x).value;
}

// The same for a gradient: the maxima's places are kept, dx takes x's place.
template <int kKernel>
__device__ void PoolPlanesGradient(const MaxPoolWork& work, int64_t first, int planes, float* x) {
  const int windows = planes * work.y_plane(), elements = planes * work.x_plane;
  float* const dy = x + work.planes_of_block * work.x_plane;
  auto* const places =
      reinterpret_cast<MaxPoolWork::Place*>(dy + work.planes_of_block * work.y_plane());
  const float* const from = work.dy + first * work.y_plane();
#pragma unroll 4
  for (int w = Thread(); w < windows; w += kThreads) dy[w] = from[w];
  __syncthreads();
  for (int w = Thread(); w < windows; w += kThreads) {
    places[w] = work.MaximumOf<kKernel>(w, x).place;
  }
  __syncthreads();
  for (int i = Thread(); i < elements; i += kThreads) x[i] = 0;
  __syncthreads();
  const int of_class = planes * static_cast<int>(work.windows_of_class.value);
  for (int c = 0; c < work.classes(); ++c) {
    for (int k = Thread(); k < of_class; k += kThreads) work.AddGradient(c, k, places, dy, x);
    __syncthreads();
  }
  float* const to = work.to + first * work.x_plane;
#pragma unroll 8
  for (int i = Thread(); i < elements; i += kThreads) to[i] = x[i];
}

template <int kKernel>
__global__ void __launch_bounds__(kThreads)
    MaxPoolPlanes(const __grid_constant__ MaxPoolWork work) {
  extern __shared__ float x[];
  const int64_t step = static_cast<int64_t>(gridDim.x) * work.planes_of_block;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * work.planes_of_block; first < work.planes;
       first += step) {
    const int64_t left = work.planes - first;
    const int planes = left < work.planes_of_block ? static_cast<int>(left) : work.planes_of_block;
    const float* const from = work.x + first * work.x_plane;
#pragma unroll 8
    for (int i = Thread(); i < planes * work.x_plane; i += kThreads) x[i] = from[i];
    if (work.gradient) {
      PoolPlanesGradient<kKernel>(work, first, planes, x);
    } else {
      PoolPlanes<kKernel>(work, first, planes, x);
    }
    __syncthreads();
  }
}

using PlanesKernel = void (*)(MaxPoolWork);
PlanesKernel KernelOf(const MaxPoolWork& work) {
  switch (work.fixed_kernel()) {
    case 2:
      return MaxPoolPlanes<2>;
    case 3:
      return MaxPoolPlanes<3>;
    default:
      return MaxPoolPlanes<0>;
  }
}

}  // namespace

cudaError_t PrepareMaxPool(const MaxPoolWork& work) {
  if (work.shared_bytes() <= kSharedWithoutAsking) return cudaSuccess;
  return cudaFuncSetAttribute(KernelOf(work), cudaFuncAttributeMaxDynamicSharedMemorySize,
                              MaxPoolWork::kMostPlaneBytes);
}

cudaError_t LaunchMaxPool(const MaxPoolWork& work, cudaStream_t stream) {
  const auto bytes = static_cast<size_t>(work.shared_bytes());
  KernelOf(work)<<<work.blocks, kThreads, bytes, stream>>>(work);
  return cudaGetLastError();
}

}  // namespace partita
