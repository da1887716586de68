#include "runtime/backend/reference/norm_kernels.h"

#include <algorithm>

namespace partita {
namespace {

// Calls visit(channel, element) for every element of x[n, c, ...].
template <class Visit>
void ForEachChannelElement(const Shape& shape, Visit&& visit) {
  const int64_t samples = shape[0], channels = shape[1];
  int64_t inner = 1;
  for (size_t d = 2; d < shape.size(); ++d) inner *= shape[d];
  int64_t i = 0;
  for (int64_t n = 0; n < samples; ++n) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t k = 0; k < inner; ++k) visit(static_cast<size_t>(c), i++);
    }
  }
}

template <class Wide>
struct ChannelStatistics {
  Wide mean, rstd;
};

// Of every channel, from the sums s1 and s2.
template <class A>
std::vector<ChannelStatistics<typename A::Wide>> StatisticsOf(
    const BatchNormFields& fields, const TensorPiece<const typename A::Wide>& s1,
    const TensorPiece<const typename A::Wide>& s2) {
  using Wide = typename A::Wide;
  const Wide one_over_n = A::OneOver(fields.count);
  std::vector<ChannelStatistics<Wide>> all;
  for (int64_t c = 0; c < s1.size(); ++c) {
    const Wide mean = s1.data[c] * one_over_n;
    Wide variance = s2.data[c] * one_over_n - mean * mean;
    if constexpr (!A::kIsRing) variance = std::max(variance, Wide(0));  // rounding
    all.push_back({mean, A::Rsqrt(variance + A::Constant(fields.epsilon))});
  }
  return all;
}

template <class A>
void Run(const BatchMoments&, const Launch& launch) {
  using T = typename A::T;
  using Wide = typename A::Wide;
  const auto x = launch.In<T>(0);
  const auto s1 = launch.Out<Wide>(0);
  const auto s2 = launch.Out<Wide>(1);
  std::fill_n(s1.data, s1.size(), Wide());
  std::fill_n(s2.data, s2.size(), Wide());
  ForEachChannelElement(x.shape, [&](size_t c, int64_t i) {
    const Wide value(x.data[i]);
    s1.data[c] += value;
    s2.data[c] += value * value;
  });
}

template <class A>
void Run(const BatchNormalize& norm, const Launch& launch) {
  using T = typename A::T;
  using Wide = typename A::Wide;
  const auto x = launch.In<T>(0);
  const auto statistics = StatisticsOf<A>(norm, launch.In<Wide>(1), launch.In<Wide>(2));
  const auto gamma = launch.In<T>(3);
  const auto beta = launch.In<T>(4);
  const auto y = launch.Out<T>();
  ForEachChannelElement(x.shape, [&](size_t c, int64_t i) {
    const Wide xhat = (Wide(x.data[i]) - statistics[c].mean) * statistics[c].rstd;
    y.data[i] = A::Round(xhat * Wide(gamma.data[c]) + Wide(beta.data[c]));
  });
}

template <class A>
void Run(const BatchNormGradMoments& norm, const Launch& launch) {
  using T = typename A::T;
  using Wide = typename A::Wide;
  const auto x = launch.In<T>(0);
  const auto statistics = StatisticsOf<A>(norm, launch.In<Wide>(1), launch.In<Wide>(2));
  const auto dy = launch.In<T>(3);
  const auto dgamma = launch.Out<T>(0);
  const auto dbeta = launch.Out<T>(1);
  std::vector<Wide> t1(statistics.size()), t2(statistics.size());
  ForEachChannelElement(x.shape, [&](size_t c, int64_t i) {
    const Wide xhat = (Wide(x.data[i]) - statistics[c].mean) * statistics[c].rstd;
    t1[c] += Wide(dy.data[i]);
    t2[c] += Wide(dy.data[i]) * xhat;
  });
  std::transform(t2.begin(), t2.end(), dgamma.data, &A::Round);
  std::transform(t1.begin(), t1.end(), dbeta.data, &A::Round);
}

template <class A>
void Run(const BatchNormGradApply& norm, const Launch& launch) {
  using T = typename A::T;
  using Wide = typename A::Wide;
  const auto x = launch.In<T>(0);
  const auto statistics = StatisticsOf<A>(norm, launch.In<Wide>(1), launch.In<Wide>(2));
  const auto gamma = launch.In<T>(3);
  const auto dy = launch.In<T>(4);
  const auto t1 = launch.In<T>(5);
  const auto t2 = launch.In<T>(6);
  const auto dx = launch.Out<T>();
  const Wide one_over_n = A::OneOver(norm.count);
  ForEachChannelElement(x.shape, [&](size_t c, int64_t i) {
    const auto& [mean, rstd] = statistics[c];
    const Wide xhat = (Wide(x.data[i]) - mean) * rstd;
    const Wide centred =
        Wide(dy.data[i]) - Wide(t1.data[c]) * one_over_n - xhat * (Wide(t2.data[c]) * one_over_n);
    dx.data[i] = A::Round(Wide(gamma.data[c]) * rstd * centred);
  });
}

template <class A>
std::vector<typename A::Wide> RstdOf(const AffineNormalize& norm,
                                     const TensorPiece<const typename A::T>& variance) {
  std::vector<typename A::Wide> rstd;
  for (int64_t c = 0; c < variance.size(); ++c) {
    rstd.push_back(A::Rsqrt(typename A::Wide(variance.data[c]) + A::Constant(norm.epsilon)));
  }
  return rstd;
}

template <class A>
void RunAffineGradient(const AffineNormalize& norm, const Launch& launch) {
  using T = typename A::T;
  using Wide = typename A::Wide;
  const int operand = launch.signature.pass.gradient;
  if (operand == 0) {  // variance, gamma, dy
    const std::vector<Wide> rstd = RstdOf<A>(norm, launch.In<T>(0));
    const auto gamma = launch.In<T>(1);
    const auto dy = launch.In<T>(2);
    const auto dx = launch.Out<T>();
    ForEachChannelElement(dy.shape, [&](size_t c, int64_t i) {
      dx.data[i] = A::Round(Wide(dy.data[i]) * (rstd[c] * Wide(gamma.data[c])));
    });
    return;
  }
  const auto out = launch.Out<T>();
  std::vector<Wide> sums(static_cast<size_t>(out.size()));
  if (operand == 3) {  // x, mean, variance, dy
    const auto x = launch.In<T>(0);
    const auto mean = launch.In<T>(1);
    const std::vector<Wide> rstd = RstdOf<A>(norm, launch.In<T>(2));
    const auto dy = launch.In<T>(3);
    ForEachChannelElement(dy.shape, [&](size_t c, int64_t i) {
      sums[c] += Wide(dy.data[i]) * ((Wide(x.data[i]) - Wide(mean.data[c])) * rstd[c]);
    });
  } else {  // dy
    const auto dy = launch.In<T>(0);
    ForEachChannelElement(dy.shape, [&](size_t c, int64_t i) { sums[c] += Wide(dy.data[i]); });
  }
  std::transform(sums.begin(), sums.end(), out.data, &A::Round);
}

template <class A>
void Run(const AffineNormalize& norm, const Launch& launch) {
  using T = typename A::T;
  using Wide = typename A::Wide;
  if (!launch.signature.pass.is_forward()) return RunAffineGradient<A>(norm, launch);
  const auto x = launch.In<T>(0);
  const auto mean = launch.In<T>(1);
  const std::vector<Wide> rstd = RstdOf<A>(norm, launch.In<T>(2));
  const auto gamma = launch.In<T>(3);
  const auto beta = launch.In<T>(4);
  const auto y = launch.Out<T>();
  ForEachChannelElement(x.shape, [&](size_t c, int64_t i) {
    const Wide xhat = (Wide(x.data[i]) - Wide(mean.data[c])) * rstd[c];
    y.data[i] = A::Round(xhat * Wide(gamma.data[c]) + Wide(beta.data[c]));
  });
}

}  // namespace

template <class A>
absl::Status RunNormKernel(const NormRow& row, A, const Launch& launch) {
  std::visit([&](const auto& norm) { Run<A>(norm, launch); }, row);
  return absl::OkStatus();
}

template absl::Status RunNormKernel(const NormRow&, FloatArithmetic, const Launch&);
template absl::Status RunNormKernel(const NormRow&, DoubleArithmetic, const Launch&);
template absl::Status RunNormKernel(const NormRow&, RingArithmetic, const Launch&);

}  // namespace partita
