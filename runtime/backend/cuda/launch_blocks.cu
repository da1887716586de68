#include "runtime/backend/cuda/launch_works.h"
#include "runtime/backend/cuda/typed_conversion.h"

namespace partita {
namespace {

constexpr int kThreads = ElementWork::kBlockThreads;
constexpr int kRuns = ElementWork::kVectors;  // that a thread reads before it writes the first

// Runs of a number of columns that the compiler knows; all places are of 32 bits.
template <NumberType kFrom, NumberType kTo, int kColumns>
__global__ void __launch_bounds__(kThreads)
    ToBlocks(const __grid_constant__ Conversion given, const __grid_constant__ ImageBlocks blocks,
             int64_t runs) {
  using Typed = TypedConversion<kFrom, kTo>;
  const Typed conversion(given);
  const int step = static_cast<int>(blocks.step());
  constexpr int64_t kOfBlock = kThreads * kRuns;
  for (int64_t first = blockIdx.x * kOfBlock; first < runs; first += gridDim.x * kOfBlock) {
    typename Typed::From read[kRuns][kColumns];
    int to[kRuns];
#pragma unroll
    for (int k = 0; k < kRuns; ++k) {
      const int64_t t = first + threadIdx.x + k * kThreads;
      if (t >= runs) continue;
      const auto run = blocks.RunAt<int>(static_cast<int>(t));
      to[k] = run.to;
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        const bool inside = j >= run.first && j < run.end;
        read[k][j] = inside ? conversion.from[run.from + j] : typename Typed::From{};
      }
    }
#pragma unroll
    for (int k = 0; k < kRuns; ++k) {
      if (first + threadIdx.x + k * kThreads >= runs) continue;
      Vector<typename Typed::To, kColumns> result;
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        result.of[j] = conversion.Result(conversion.Value(read[k][j]));
      }
      if (blocks.channels_last) {
        *reinterpret_cast<Vector<typename Typed::To, kColumns>*>(conversion.to + to[k]) = result;
      } else {
#pragma unroll
        for (int j = 0; j < kColumns; ++j) conversion.to[to[k] + j * step] = result.of[j];
      }
    }
  }
}

template <int kColumns>
cudaError_t Launch(const ToBlocksElement& functor, const ElementWork& work, cudaStream_t stream) {
  return WithTypes(functor.conversion, [&](auto from, auto to) {
    ToBlocks<from(), to(), kColumns>
        <<<work.blocks, kThreads, 0, stream>>>(functor.conversion, functor.blocks, work.count);
    return cudaGetLastError();
  });
}

}  // namespace

cudaError_t LaunchToBlocks(const ToBlocksElement& functor, const ElementWork& work,
                           cudaStream_t stream) {
  return functor.blocks.columns.value == 2 ? Launch<2>(functor, work, stream)
                                           : Launch<4>(functor, work, stream);
}

}  // namespace partita
