#include <algorithm>

#include "runtime/backend/cuda/launch_works.h"
#include "runtime/backend/cuda/typed_conversion.h"

namespace partita {
namespace {

constexpr int kThreads = 256;
constexpr int kVectors = 2;  // that a thread reads before it writes the first
constexpr int64_t kMostBlocks = 1 << 20;

// Elements that lie in order on both sides, four at a time.
template <NumberType kFrom, NumberType kTo>
__global__ void __launch_bounds__(kThreads)
    ConvertVectors(const __grid_constant__ Conversion given, int64_t count) {
  using Typed = TypedConversion<kFrom, kTo>;
  const Typed conversion(given);
  const int64_t vectors = count / 4;
  const auto* const from =
      reinterpret_cast<const Vector<typename Typed::From, 4>*>(conversion.from);
  auto* const to = reinterpret_cast<Vector<typename Typed::To, 4>*>(conversion.to);
  constexpr int64_t kRun = kThreads * kVectors;
  for (int64_t run = blockIdx.x * kRun; run < vectors; run += gridDim.x * kRun) {
    Vector<typename Typed::From, 4> read[kVectors];
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int64_t at = run + threadIdx.x + k * kThreads;
      if (at < vectors) read[k] = from[at];
    }
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int64_t at = run + threadIdx.x + k * kThreads;
      if (at >= vectors) continue;
      Vector<typename Typed::To, 4> result;
#pragma unroll
      for (int e = 0; e < 4; ++e) result.of[e] = conversion.Result(conversion.Value(read[k].of[e]));
      to[at] = result;
    }
  }
  const int64_t rest = vectors * 4 + threadIdx.x;
  if (blockIdx.x == 0 && rest < count) {
    conversion.to[rest] = conversion.Result(conversion.Value(conversion.from[rest]));
  }
}

}  // namespace

cudaError_t LaunchConversion(const Conversion& conversion, int64_t count, cudaStream_t stream) {
  const int64_t of_block = int64_t{kThreads} * kVectors * 4;
  const int64_t wanted = std::max<int64_t>(1, (count + of_block - 1) / of_block);
  const auto blocks = static_cast<unsigned>(std::min(kMostBlocks, wanted));
  return WithTypes(conversion, [&](auto from, auto to) {
    ConvertVectors<from(), to()><<<blocks, kThreads, 0, stream>>>(conversion, count);
    return cudaGetLastError();
  });
}

}  // namespace partita
