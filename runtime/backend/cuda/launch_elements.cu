#include <algorithm>

#include "runtime/backend/cuda/launch_works.h"

namespace partita {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 4096;  // beyond it, threads take several elements

constexpr int kElements = 4;  // that a thread reads before it writes the first

// Runs of kThreads * kElements elements, of which a thread takes each kThreads-th.
template <class F>
__global__ void __launch_bounds__(kThreads)
    ReadThenWrite(const __grid_constant__ F functor, int64_t count) {
  constexpr int64_t kRun = kThreads * kElements;
  for (int64_t run = blockIdx.x * kRun; run < count; run += gridDim.x * kRun) {
    typename F::Operands operands[kElements];
    const int64_t first = run + threadIdx.x;
#pragma unroll
    for (int k = 0; k < kElements; ++k) {
      const int64_t i = first + k * kThreads;
      if (i < count) operands[k] = functor.Load(i);
    }
#pragma unroll
    for (int k = 0; k < kElements; ++k) {
      const int64_t i = first + k * kThreads;
      if (i < count) functor.Store(i, operands[k]);
    }
  }
}

// What the compiler is told of a pointer to be able to read and write four elements at once.
struct AssumeAligned {
  template <class T>
  PARTITA_HOST_DEVICE void operator()(T*& data) const {
    data = static_cast<T*>(__builtin_assume_aligned(data, 4 * sizeof(T)));
  }
};
struct FindUnaligned {
  bool* unaligned;
  template <class T>
  PARTITA_HOST_DEVICE void operator()(T*& data) const {
    if (reinterpret_cast<uintptr_t>(data) % (4 * sizeof(T)) != 0) *unaligned = true;
  }
};

template <class F>
__global__ void __launch_bounds__(kThreads)
    ReadThenWriteVectors(const __grid_constant__ F given, int64_t count) {
  F functor = given;
  functor.VisitVectors(AssumeAligned());
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t vectors = count / 4, step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t v = thread; v < vectors; v += step) {
    typename F::Operands operands[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) operands[k] = functor.Load(v * 4 + k);
    functor.template StoreVector<4>(v * 4, operands);
  }
  const int64_t rest = vectors * 4 + thread;
  if (rest < count) functor.Store(rest, functor.Load(rest));
}

template <class F>
__global__ void __launch_bounds__(kThreads)
    ForEach(const __grid_constant__ F functor, int64_t count) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    functor(i);
  }
}

unsigned BlocksFor(int64_t count, int64_t of_block) {
  return static_cast<unsigned>(std::min(kMostBlocks, (count + of_block - 1) / of_block));
}

template <class F>
cudaError_t Launch(const F& functor, int64_t count, cudaStream_t stream) {
  if constexpr (HasVectors<F>::value) {
    bool unaligned = false;
    F(functor).VisitVectors(FindUnaligned{&unaligned});
    if (!unaligned) {
      const unsigned blocks = BlocksFor(count, kThreads * 4);
      ReadThenWriteVectors<F><<<blocks, kThreads, 0, stream>>>(functor, count);
      return cudaGetLastError();
    }
  }
  if constexpr (std::is_same_v<F, ConversionElement>) {
    if (functor.lies_in_order()) return LaunchConversion(functor.conversion, count, stream);
  }
  if constexpr (std::is_same_v<F, ToBlocksElement>) {
    if (functor.is_usual()) return LaunchToBlocks(functor, count, stream);
  }
  if constexpr (ReadsFirst<F>::value) {
    const unsigned blocks = BlocksFor(count, kThreads * kElements);
    ReadThenWrite<F><<<blocks, kThreads, 0, stream>>>(functor, count);
  } else {
    ForEach<F><<<BlocksFor(count, kThreads), kThreads, 0, stream>>>(functor, count);
  }
  return cudaGetLastError();
}

}  // namespace

cudaError_t LaunchElements(const ElementWork& work, cudaStream_t stream) {
  if (work.count == 0) return cudaSuccess;
  return std::visit([&](const auto& functor) { return Launch(functor, work.count, stream); },
                    work.functor);
}

}  // namespace partita
