#include "runtime/backend/cuda/launch_works.h"

namespace partita {
namespace {

constexpr int kThreads = ElementWork::kBlockThreads;
constexpr int kElements = ElementWork::kElements;  // that a thread reads before it writes the first

// Elements are counted by Int: see WithIndex.

// Runs of kThreads * kElements elements, of which a thread takes each kThreads-th.
template <class F, class Int>
__global__ void __launch_bounds__(kThreads)
    ReadThenWrite(const __grid_constant__ F functor, Int count) {
  constexpr Int kRun = kThreads * kElements;
  const Int step = static_cast<Int>(gridDim.x) * kRun;
  for (Int run = static_cast<Int>(blockIdx.x) * kRun; run < count; run += step) {
    typename F::Operands operands[kElements];
    const Int first = run + static_cast<Int>(threadIdx.x);
#pragma unroll
    for (int k = 0; k < kElements; ++k) {
      const Int i = first + k * kThreads;
      if (i < count) operands[k] = functor.Load(i);
    }
#pragma unroll
    for (int k = 0; k < kElements; ++k) {
      const Int i = first + k * kThreads;
      if (i < count) functor.Store(i, operands[k]);
    }
  }
}

// What the compiler is told of a pointer to be able to read and write four elements at once.
struct AssumeAligned {
  template <class... T>
  PARTITA_HOST_DEVICE void operator()(T&... data) const {
    ((data = static_cast<T>(__builtin_assume_aligned(data, 4 * sizeof(*data)))), ...);
  }
};
// The step's numbers are read once, before the elements.
struct ReadNumbers {
  template <class... T>
  PARTITA_HOST_DEVICE void operator()(T&... arguments) const {
    (Read(arguments), ...);
  }
  template <class T>
  PARTITA_HOST_DEVICE void Read(T*&) const {}
  PARTITA_HOST_DEVICE void Read(StepNumbersArgument& numbers) const {
    numbers.own = *numbers;
    numbers.in_memory = nullptr;
  }
};

template <class F, class Int>
__global__ void __launch_bounds__(kThreads)
    ReadThenWriteVectors(const __grid_constant__ F given, Int count) {
  F functor = given;
  functor.VisitVectors(AssumeAligned());
  VisitPointersOf(functor, ReadNumbers());
  const Int thread = static_cast<Int>(blockIdx.x) * kThreads + static_cast<Int>(threadIdx.x);
  const Int vectors = count / 4, step = static_cast<Int>(gridDim.x) * kThreads;
  for (Int v = thread; v < vectors; v += step) {
    typename F::Operands operands[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) operands[k] = functor.Load(v * 4 + k);
    StoreFour(functor, v * 4, operands);
  }
  const Int rest = vectors * 4 + thread;
  if (rest < count) functor.Store(rest, functor.Load(rest));
}

template <class F, class Int>
__global__ void __launch_bounds__(kThreads) ForEach(const __grid_constant__ F functor, Int count) {
  const Int step = static_cast<Int>(gridDim.x) * kThreads;
  for (Int i = static_cast<Int>(blockIdx.x) * kThreads + static_cast<Int>(threadIdx.x); i < count;
       i += step) {
    functor(i);
  }
}

template <class F>
cudaError_t Launch(const F& functor, const ElementWork& work, cudaStream_t stream) {
  if constexpr (std::is_same_v<F, CopyElement>) {
    if (functor.is_done()) return cudaSuccess;
  }
  if constexpr (std::is_same_v<F, ConversionElement>) {
    if (functor.suits_vectors()) return LaunchConversion(functor.conversion, work, stream);
  }
  if constexpr (std::is_same_v<F, ToBlocksElement>) {
    if (functor.is_usual()) return LaunchToBlocks(functor, work, stream);
  }
  WithIndex(work.places, [&](auto zero) {
    using Int = decltype(zero);
    const auto count = static_cast<Int>(work.count);
    if constexpr (HasVectors<F>::value) {
      if (SuitsVectors(functor)) {
        ReadThenWriteVectors<F, Int><<<work.blocks, kThreads, 0, stream>>>(functor, count);
        return;
      }
    }
    if constexpr (ReadsFirst<F>::value) {
      ReadThenWrite<F, Int><<<work.blocks, kThreads, 0, stream>>>(functor, count);
    } else {
      ForEach<F, Int><<<work.blocks, kThreads, 0, stream>>>(functor, count);
    }
  });
  return cudaGetLastError();
}

}  // namespace

cudaError_t LaunchElements(const ElementWork& work, cudaStream_t stream) {
  if (work.count == 0) return cudaSuccess;
  return std::visit([&](const auto& functor) { return Launch(functor, work, stream); },
                    work.functor);
}

}  // namespace partita
