#include "runtime/backend/reference/lrn_kernel.h"

#include <algorithm>
#include <vector>

#include "runtime/backend/reference/tensor_piece.h"

// For result channel j with centre i = j + lead and b_j = k + alpha / size * sum of x^2 over its
// window:
//   y_j  = x_i * b_j^-beta
//   dx_i = dy_j * b_j^-beta
//          + 2 * alpha / size * x_i * sum of dy_j * x_centre(j) * (b^-beta)'(b_j)
//            over the windows j that hold i

namespace partita {
namespace {

// x[n, c, ...] and y[n, c', ...] as [n, channels, inner].
struct Extents {
  int64_t samples, in_channels, out_channels, inner;
};

Extents ExtentsOf(const Shape& x, const Shape& y) {
  int64_t inner = 1;
  for (size_t d = 2; d < x.size(); ++d) inner *= x[d];
  return {x[0], x[1], y[1], inner};
}

// The window of result channel j among the channels of the operand.
Interval WindowOf(const Lrn& lrn, const Extents& extents, int64_t j) {
  return Intersect({j - lrn.pads[0], j - lrn.pads[0] + lrn.size}, {0, extents.in_channels});
}

// Calls visit(first element of x, first element of y) for every sample and inner position;
// channels are `inner` apart.
template <class Visit>
void ForEachColumn(const Extents& e, Visit&& visit) {
  for (int64_t n = 0; n < e.samples; ++n) {
    for (int64_t k = 0; k < e.inner; ++k) {
      visit(n * e.in_channels * e.inner + k, n * e.out_channels * e.inner + k);
    }
  }
}

template <class A>
typename A::Wide Base(const Lrn& lrn, const Extents& e, const typename A::T* x, int64_t j) {
  using Wide = typename A::Wide;
  Wide sum{};
  const Interval window = WindowOf(lrn, e, j);
  for (int64_t c = window.lo; c < window.hi; ++c) {
    const Wide value(x[c * e.inner]);
    sum += value * value;
  }
  return A::Constant(lrn.k) + A::Constant(lrn.alpha / static_cast<double>(lrn.size)) * sum;
}

template <class A>
void Gradient(const Lrn& lrn, const Extents& e, const typename A::T* x, const typename A::T* dy,
              typename A::T* dx) {
  using Wide = typename A::Wide;
  std::vector<Wide> sums(static_cast<size_t>(e.in_channels));
  const Wide twice = A::Integer(2) * A::Constant(lrn.alpha / static_cast<double>(lrn.size));
  for (int64_t j = 0; j < e.out_channels; ++j) {
    const int64_t centre = j + lrn.lead();
    const Wide base = Base<A>(lrn, e, x, j);
    const Wide gradient(dy[j * e.inner]);
    sums[static_cast<size_t>(centre)] += gradient * A::Power(base, -lrn.beta);
    const Wide shared =
        gradient * Wide(x[centre * e.inner]) * A::PowerDerivative(base, -lrn.beta) * twice;
    const Interval window = WindowOf(lrn, e, j);
    for (int64_t c = window.lo; c < window.hi; ++c) {
      sums[static_cast<size_t>(c)] += Wide(x[c * e.inner]) * shared;
    }
  }
  for (int64_t c = 0; c < e.in_channels; ++c) {
    dx[c * e.inner] = A::Round(sums[static_cast<size_t>(c)]);
  }
}

}  // namespace

template <class A>
absl::Status RunKernel(const Lrn& lrn, A, const KernelSignature& signature,
                       const KernelArguments& arguments) {
  using T = typename A::T;
  using Wide = typename A::Wide;
  const TensorPiece<const T> x = Input<T>(signature, arguments, 0);
  const TensorPiece<T> out = Output<T>(signature, arguments);
  if (signature.pass.is_forward()) {
    const Extents e = ExtentsOf(x.shape, out.shape);
    ForEachColumn(e, [&](int64_t from, int64_t to) {
      for (int64_t j = 0; j < e.out_channels; ++j) {
        const Wide centre(x.data[from + (j + lrn.lead()) * e.inner]);
        const Wide base = Base<A>(lrn, e, x.data + from, j);
        out.data[to + j * e.inner] = A::Round(centre * A::Power(base, -lrn.beta));
      }
    });
    return absl::OkStatus();
  }
  const TensorPiece<const T> dy = Input<T>(signature, arguments, 1);
  const Extents e = ExtentsOf(x.shape, dy.shape);
  ForEachColumn(e, [&](int64_t at_x, int64_t at_y) {
    Gradient<A>(lrn, e, x.data + at_x, dy.data + at_y, out.data + at_x);
  });
  return absl::OkStatus();
}

template absl::Status RunKernel(const Lrn&, FloatArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const Lrn&, DoubleArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const Lrn&, RingArithmetic, const KernelSignature&,
                                const KernelArguments&);

}  // namespace partita
