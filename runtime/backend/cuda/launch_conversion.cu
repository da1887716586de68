#include "runtime/backend/cuda/launch_works.h"
#include "runtime/backend/cuda/typed_conversion.h"

namespace partita {
namespace {

constexpr int kThreads = ElementWork::kBlockThreads;
constexpr int kVectors = ElementWork::kVectors;  // that a thread reads before it writes the first

// Elements that lie in order on both sides, four at a time.
template <NumberType kFrom, NumberType kTo, class Int>
__global__ void __launch_bounds__(kThreads)
    ConvertVectors(const __grid_constant__ Conversion given, Int count) {
  using Typed = TypedConversion<kFrom, kTo>;
  const Typed conversion(given);
  const Int vectors = count / 4;
  const auto* const from =
      reinterpret_cast<const Vector<typename Typed::From, 4>*>(conversion.from);
  auto* const to = reinterpret_cast<Vector<typename Typed::To, 4>*>(conversion.to);
  constexpr Int kRun = kThreads * kVectors;
  const Int step = static_cast<Int>(gridDim.x) * kRun;
  for (Int run = static_cast<Int>(blockIdx.x) * kRun; run < vectors; run += step) {
    Vector<typename Typed::From, 4> read[kVectors];
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const Int at = run + static_cast<Int>(threadIdx.x) + k * kThreads;
      if (at < vectors) read[k] = ReadOnlyVector(from + at);
    }
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const Int at = run + static_cast<Int>(threadIdx.x) + k * kThreads;
      if (at >= vectors) continue;
      Vector<typename Typed::To, 4> result;
#pragma unroll
      for (int e = 0; e < 4; ++e) result.of[e] = conversion.Result(conversion.Value(read[k].of[e]));
      to[at] = result;
    }
  }
  const Int rest = vectors * 4 + static_cast<Int>(threadIdx.x);
  if (blockIdx.x == 0 && rest < count) {
    conversion.to[rest] = conversion.Result(conversion.Value(conversion.from[rest]));
  }
}

}  // namespace

cudaError_t LaunchConversion(const Conversion& conversion, const ElementWork& work,
                             cudaStream_t stream) {
  return WithTypes(conversion, [&](auto from, auto to) {
    WithIndex(work.places, [&](auto zero) {
      using Int = decltype(zero);
      ConvertVectors<from(), to(), Int>
          <<<work.blocks, kThreads, 0, stream>>>(conversion, static_cast<Int>(work.count));
    });
    return cudaGetLastError();
  });
}

}  // namespace partita
