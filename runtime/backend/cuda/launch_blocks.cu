#include <algorithm>

#include "runtime/backend/cuda/launch_works.h"
#include "runtime/backend/cuda/typed_conversion.h"

namespace partita {
namespace {

constexpr int kThreads = 256;
constexpr int kRuns = 2;  // that a thread reads before it writes the first
constexpr int64_t kMostBlocks = 1 << 20;

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
cudaError_t Launch(const ToBlocksElement& work, int64_t runs, cudaStream_t stream) {
  const int64_t of_block = int64_t{kThreads} * kRuns;
  const auto blocks =
      static_cast<unsigned>(std::min(kMostBlocks, (runs + of_block - 1) / of_block));
  return WithTypes(work.conversion, [&](auto from, auto to) {
    ToBlocks<from(), to(), kColumns>
        <<<blocks, kThreads, 0, stream>>>(work.conversion, work.blocks, runs);
    return cudaGetLastError();
  });
}

}  // namespace

cudaError_t LaunchToBlocks(const ToBlocksElement& work, int64_t runs, cudaStream_t stream) {
  return work.blocks.columns.value == 2 ? Launch<2>(work, runs, stream)
                                        : Launch<4>(work, runs, stream);
}

}  // namespace partita
