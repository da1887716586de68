#include <algorithm>

#include "runtime/backend/cuda/launch_works.h"

namespace partita {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 4096;  // beyond it, threads take several elements

template <class F>
__global__ void __launch_bounds__(kThreads) ForEach(F functor, int64_t count) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    functor(i);
  }
}

template <class F>
cudaError_t Launch(const F& functor, int64_t count, cudaStream_t stream) {
  const auto blocks =
      static_cast<unsigned>(std::min(kMostBlocks, (count + kThreads - 1) / kThreads));
  ForEach<F><<<blocks, kThreads, 0, stream>>>(functor, count);
  return cudaGetLastError();
}

}  // namespace

cudaError_t LaunchElements(const ElementWork& work, cudaStream_t stream) {
  if (work.count == 0) return cudaSuccess;
  return std::visit([&](const auto& functor) { return Launch(functor, work.count, stream); },
                    work.functor);
}

}  // namespace partita
