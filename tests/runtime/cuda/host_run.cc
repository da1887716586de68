#include "tests/runtime/cuda/host_run.h"

#include <algorithm>

#include "graph/support/check.h"

namespace partita {
namespace {

// Four neighbours, all of which are read before the first is written.
template <class F, class Int>
void RunVector(const F& functor, Int i) {
  const typename F::Operands operands[] = {functor.Load(i), functor.Load(i + 1),
                                           functor.Load(i + 2), functor.Load(i + 3)};
  StoreFour(functor, i, operands);
}

template <class Int>
void RunElements(const ElementWork& work) {
  CHECK(work.blocks > 0 && work.places >= work.count);
  const auto count = static_cast<Int>(work.count);
  std::visit(
      [&](const auto& functor) {
        using F = std::decay_t<decltype(functor)>;
        Int i = 0;
        if constexpr (HasVectors<F>::value) {
          for (; TakesVectors(functor) && i + 4 <= count; i += 4) RunVector(functor, i);
        }
        for (; i < count; ++i) ApplyElement(functor, i);
      },
      work.functor);
}

void Run(const ElementWork& work, HostIndex index) {
  if (work.count == 0) return;
  WithIndex(index == HostIndex::kLarge ? kMostSmallCount + 1 : work.places,
            [&](auto zero) { RunElements<decltype(zero)>(work); });
}

// The terms [begin, end) of a row as a block of threads takes them: lane by lane, then by a tree.
template <class F, class Int, class Take>
typename F::Partial Block(const F& functor, int lanes, Int begin, Int end, Take&& take) {
  std::vector<typename F::Partial> partials(static_cast<size_t>(lanes), functor.Start());
  for (int lane = 0; lane < lanes; ++lane) {
    for (Int k = begin + lane; k < end; k += lanes) take(partials[static_cast<size_t>(lane)], k);
  }
  for (int half = lanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) {
      functor.Merge(partials[static_cast<size_t>(lane)],
                    partials[static_cast<size_t>(lane + half)]);
    }
  }
  return partials[0];
}

template <class Int>
void RunReduction(const ReductionWork& work) {
  const ReductionShape& shape = work.shape;
  CHECK(shape.kBlockThreads % shape.lanes == 0 && (shape.lanes & (shape.lanes - 1)) == 0);
  CHECK(shape.groups > 0);
  const auto begin_of = [&](int64_t chunk) { return static_cast<Int>(shape.ChunkBegin(chunk)); };
  std::visit(
      [&](const auto& functor) {
        using Partial = typename std::decay_t<decltype(functor)>::Partial;
        auto* partials = static_cast<Partial*>(work.partials);
        for (Int row = 0; row < static_cast<Int>(shape.rows); ++row) {
          const auto add = [&](Partial& partial, Int k) { AddTerm(functor, partial, row, k); };
          if (shape.chunks == 1) {
            functor.Store(row, Block(functor, shape.lanes, begin_of(0), begin_of(1), add));
            continue;
          }
          CHECK(work.merge.rows == shape.rows && work.merge.terms == shape.chunks);
          Partial* of_row = partials + row * shape.chunks;
          for (int64_t c = 0; c < shape.chunks; ++c) {
            of_row[c] = Block(functor, shape.lanes, begin_of(c), begin_of(c + 1), add);
          }
          functor.Store(
              row, Block(functor, work.merge.lanes, int64_t{0}, shape.chunks,
                         [&](Partial& partial, int64_t c) { functor.Merge(partial, of_row[c]); }));
        }
      },
      work.functor);
}

void Run(const ReductionWork& work, HostIndex index) {
  WithIndex(index == HostIndex::kLarge ? kMostSmallCount + 1 : work.shape.places(),
            [&](auto zero) { RunReduction<decltype(zero)>(work); });
}

void Run(const TransposeWork& work, HostIndex) {
  CHECK(work.blocks > 0 && work.tiles >= work.blocks);
  for (int64_t b = 0; b < work.batch; ++b) {
    const int64_t base = b * work.rows * work.columns;
    for (int64_t r = 0; r < work.rows; ++r) {
      for (int64_t c = 0; c < work.columns; ++c) {
        work.conversion.Store(
            base + c * work.rows + r, c,
            work.conversion.Value(work.conversion.Bits(base + r * work.columns + c)));
      }
    }
  }
}

// Group by group of planes, as blocks take them; windows of a class in the opposite order.
template <int kKernel>
void RunPlanes(const MaxPoolWork& work) {
  const int64_t of_block = work.planes_of_block;
  std::vector<float> dx(static_cast<size_t>(of_block * work.x_plane));
  std::vector<MaxPoolWork::Place> places(static_cast<size_t>(of_block * work.y_plane()));
  for (int64_t first = 0; first < work.planes; first += of_block) {
    const auto planes = static_cast<int>(std::min(of_block, work.planes - first));
    const int windows = planes * work.y_plane();
    const float* const x = work.x + first * work.x_plane;
    if (!work.gradient) {
      float* const y = work.to + first * work.y_plane();
      for (int w = 0; w < windows; ++w) y[w] = work.MaximumOf<kKernel>(w, x).value;
      continue;
    }
    for (int w = 0; w < windows; ++w) {
      places[static_cast<size_t>(w)] = work.MaximumOf<kKernel>(w, x).place;
    }
    std::fill(dx.begin(), dx.end(), 0.0f);
    const float* const dy = work.dy + first * work.y_plane();
    const int of_class = planes * static_cast<int>(work.windows_of_class.value);
    for (int c = 0; c < work.classes(); ++c) {
      for (int k = of_class; k-- > 0;) work.AddGradient(c, k, places.data(), dy, dx.data());
    }
    std::copy_n(dx.begin(), planes * work.x_plane, work.to + first * work.x_plane);
  }
}

void Run(const MaxPoolWork& work, HostIndex) {
  CHECK(work.blocks > 0);
  CHECK(work.shared_bytes() <= MaxPoolWork::kMostPlaneBytes);
  work.fixed_kernel() == 3   ? RunPlanes<3>(work)
  : work.fixed_kernel() == 2 ? RunPlanes<2>(work)
                             : RunPlanes<0>(work);
}

void RunProduct(const Gemm& gemm, int64_t product) {
  const GemmShape& s = gemm.shape;
  const NumberType type = TypeOf(s.precision);
  CHECK((s.precision == Precision::kFloat16) == (gemm.factors != nullptr));
  const double times = gemm.factors == nullptr ? 1 : static_cast<double>(gemm.factors[0]);
  if (gemm.factors != nullptr) CHECK(gemm.factors[1] == 0);
  for (int64_t j = 0; j < s.n; ++j) {
    for (int64_t i = 0; i < s.m; ++i) {
      double sum = 0;
      for (int64_t k = 0; k < s.k; ++k) {
        const float a = LoadNumber(
            type, gemm.a, product * s.stride_a + (s.transpose_a ? k + i * s.lda : i + k * s.lda));
        const float b = LoadNumber(
            type, gemm.b, product * s.stride_b + (s.transpose_b ? j + k * s.ldb : k + j * s.ldb));
        sum += static_cast<double>(a) * static_cast<double>(b);
      }
      sum = sum * times + (s.bias ? static_cast<double>(gemm.bias[i]) : 0);
      gemm.c[product * s.stride_c + i + j * s.ldc] = static_cast<float>(sum);
    }
  }
}

void Run(const Gemm& gemm, HostIndex) {
  for (int64_t product = 0; product < gemm.shape.batch; ++product) RunProduct(gemm, product);
}

// Where an element of four-dimensional data lies.
int64_t PlaceOf(const ConvolutionShape& s, const std::array<int64_t, 4>& e,
                const std::array<int64_t, 4>& index) {
  const auto [a, b, c, d] = index;
  return s.channels_last ? ((a * e[2] + c) * e[3] + d) * e[1] + b
                         : ((a * e[1] + b) * e[2] + c) * e[3] + d;
}

// Calls visit(offset in x, in w, in y) for every product of a convolution.
template <class Visit>
void ForEachProduct(const ConvolutionShape& s, Visit&& visit) {
  const int64_t c = s.w[1], k_of_group = s.y[1] / s.groups;
  for (int64_t n = 0; n < s.y[0]; ++n) {
    for (int64_t k = 0; k < s.y[1]; ++k) {
      for (int64_t oh = 0; oh < s.y[2]; ++oh) {
        for (int64_t ow = 0; ow < s.y[3]; ++ow) {
          const int64_t y_at = PlaceOf(s, s.y, {n, k, oh, ow});
          for (int64_t tap = 0; tap < c * s.w[2] * s.w[3]; ++tap) {
            const int64_t b = tap % s.w[3], a = tap / s.w[3] % s.w[2], i = tap / s.w[3] / s.w[2];
            const int64_t h = oh * s.stride[0] - s.pad[0] + a * s.dilation[0];
            const int64_t w = ow * s.stride[1] - s.pad[1] + b * s.dilation[1];
            if (h < 0 || h >= s.x[2] || w < 0 || w >= s.x[3]) continue;
            const int64_t channel = k / k_of_group * c + i;
            visit(PlaceOf(s, s.x, {n, channel, h, w}), PlaceOf(s, s.w, {k, i, a, b}), y_at);
          }
        }
      }
    }
  }
}

// What cudnnSetConvolutionNdDescriptor's formula gives for y.
void CheckExtents(const ConvolutionShape& s) {
  CHECK_EQ(s.x[1], s.w[1] * s.groups);
  CHECK_EQ(s.y[1], s.w[0]);
  for (size_t d = 0; d < 2; ++d) {
    CHECK(s.pad[d] >= 0);
    const int64_t reach = s.dilation[d] * (s.w[d + 2] - 1) + 1;
    CHECK_EQ(s.y[d + 2], (s.x[d + 2] + 2 * s.pad[d] - reach) / s.stride[d] + 1);
  }
}

void Run(const Convolution& convolution, HostIndex index) {
  const ConvolutionShape& s = convolution.shape;
  CheckExtents(s);
  const auto [x, w, y] = std::tuple(convolution.x, convolution.w, convolution.y);
  const NumberType type = TypeOf(s.precision);
  const auto factor = [type](const void* data, int64_t at) {
    return static_cast<double>(LoadNumber(type, data, at));
  };
  void* const result = convolution.result();
  std::vector<double> sums(static_cast<size_t>(VolumeOf(s.result())));
  ForEachProduct(s, [&](int64_t x_at, int64_t w_at, int64_t y_at) {
    if (s.pass == ConvolutionPass::kForward) {
      sums[static_cast<size_t>(y_at)] += factor(x, x_at) * factor(w, w_at);
    } else if (s.pass == ConvolutionPass::kData) {
      sums[static_cast<size_t>(x_at)] += factor(w, w_at) * factor(y, y_at);
    } else {
      sums[static_cast<size_t>(w_at)] += factor(x, x_at) * factor(y, y_at);
    }
  });
  for (size_t i = 0; i < sums.size(); ++i) {
    StoreNumber(type, result, static_cast<int64_t>(i), static_cast<float>(sums[i]));
  }
  Run(convolution.epilogue, index);
}

}  // namespace

void RunOnHost(const KernelStep& step, HostIndex index) {
  std::visit([&](const auto& work) { Run(work, index); }, step);
}

void RunOnHost(const KernelSteps& plan) {
  for (const KernelStep& step : plan.steps) RunOnHost(step);
}

}  // namespace partita
