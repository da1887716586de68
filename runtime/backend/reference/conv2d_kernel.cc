#include "runtime/backend/reference/conv2d_kernel.h"

#include <span>
#include <vector>

#include "runtime/backend/reference/matrix_product.h"
#include "runtime/backend/reference/tensor_piece.h"
#include "runtime/support/finite.h"

// Per sample and group, the windows of x become the columns of a matrix [c * kh * kw, oh * ow]
// (zero where a window reaches over the end), so that the forward pass is weights * columns and
// both gradients are products, too. Elements of x that no window reads are never touched: their
// gradient stays zero. What padding would be multiplied by, weights or dy, may be NaN or infinite:
// then the windows are walked instead, since padding takes part in no product.

namespace partita {
namespace {

struct Geometry {
  int64_t batch, groups, k, c;  // k and c: channels of one group
  int64_t h, w, oh, ow, kh, kw;

  int64_t window() const { return c * kh * kw; }
  int64_t positions() const { return oh * ow; }
  int64_t x_size() const { return c * h * w; }
  int64_t y_size() const { return k * positions(); }
};

Geometry MakeGeometry(const Conv2d& conv, const Shape& x, const Shape& weights, const Shape& y) {
  return {y[0],       conv.groups, weights[0] / conv.groups, weights[1], x[2], x[3], y[2], y[3],
          weights[2], weights[3]};
}

// Calls visit(offset in one group's x, offset in columns) for every element that a window reads.
template <class Visit>
void ForEachTap(const Conv2d& conv, const Geometry& g, Visit&& visit) {
  int64_t row = 0;
  for (int64_t c = 0; c < g.c; ++c) {
    for (int64_t a = 0; a < g.kh; ++a) {
      for (int64_t b = 0; b < g.kw; ++b, ++row) {
        for (int64_t oh = 0; oh < g.oh; ++oh) {
          const int64_t ih = oh * conv.stride[0] - conv.pads[0] + a * conv.dilation[0];
          if (ih < 0 || ih >= g.h) continue;
          for (int64_t ow = 0; ow < g.ow; ++ow) {
            const int64_t iw = ow * conv.stride[1] - conv.pads[1] + b * conv.dilation[1];
            if (iw < 0 || iw >= g.w) continue;
            visit((c * g.h + ih) * g.w + iw, (row * g.oh + oh) * g.ow + ow);
          }
        }
      }
    }
  }
}

// Whether the factor of the columns may meet their zeros.
template <class A>
bool IsFinite(const typename A::T* values, int64_t count) {
  if constexpr (!A::kIsRing) {
    return FirstNotFinite(std::span(values, static_cast<size_t>(count))) < 0;
  }
  return true;
}

template <class A>
void Forward(const Conv2d& conv, TensorPiece<const typename A::T> x,
             TensorPiece<const typename A::T> weights, const typename A::T* bias,
             TensorPiece<typename A::T> y) {
  using Wide = typename A::Wide;
  const Geometry g = MakeGeometry(conv, x.shape, weights.shape, y.shape);
  std::vector<Wide> columns(static_cast<size_t>(g.window() * g.positions()));
  std::vector<Wide> sums(static_cast<size_t>(g.y_size()));
  const bool finite = IsFinite<A>(weights.data, weights.size());
  for (int64_t i = 0; i < g.batch * g.groups; ++i) {
    const int64_t group = i % g.groups;
    const auto* w = weights.data + group * g.k * g.window();
    ForEachTap(conv, g, [&](int64_t from, int64_t to) {
      columns[static_cast<size_t>(to)] = Wide(x.data[i * g.x_size() + from]);
    });
    for (int64_t j = 0; j < g.y_size(); ++j) {
      sums[static_cast<size_t>(j)] =
          bias == nullptr ? Wide() : Wide(bias[group * g.k + j / g.positions()]);
    }
    if (finite) {
      AddProduct({g.k, g.positions(), g.window()}, RowMajor(w, g.window()),
                 RowMajor<Wide>(columns.data(), g.positions()), sums.data());
    } else {
      ForEachTap(conv, g, [&](int64_t, int64_t column) {
        for (int64_t k = 0; k < g.k; ++k) {
          sums[static_cast<size_t>(k * g.positions() + column % g.positions())] +=
              Wide(w[k * g.window() + column / g.positions()]) *
              columns[static_cast<size_t>(column)];
        }
      });
    }
    std::transform(sums.begin(), sums.end(), y.data + i * g.y_size(), &A::Round);
  }
}

template <class A>
void InputGradient(const Conv2d& conv, const Geometry& g, const typename A::T* weights,
                   const typename A::T* dy, typename A::T* dx) {
  using Wide = typename A::Wide;
  std::vector<Wide> columns, sums;
  for (int64_t i = 0; i < g.batch * g.groups; ++i) {
    columns.assign(static_cast<size_t>(g.window() * g.positions()), Wide());
    sums.assign(static_cast<size_t>(g.x_size()), Wide());
    const auto w = RowMajor(weights + (i % g.groups) * g.k * g.window(), g.window());
    AddProduct({g.window(), g.positions(), g.k}, Transposed(w),
               RowMajor(dy + i * g.y_size(), g.positions()), columns.data());
    ForEachTap(conv, g, [&](int64_t to, int64_t from) {
      sums[static_cast<size_t>(to)] += columns[static_cast<size_t>(from)];
    });
    std::transform(sums.begin(), sums.end(), dx + i * g.x_size(), &A::Round);
  }
}

template <class A>
void WeightGradient(const Conv2d& conv, const Geometry& g, const typename A::T* x,
                    const typename A::T* dy, TensorPiece<typename A::T> dw) {
  using Wide = typename A::Wide;
  std::vector<Wide> columns(static_cast<size_t>(g.window() * g.positions()));
  std::vector<Wide> sums(static_cast<size_t>(dw.size()));
  for (int64_t i = 0; i < g.batch * g.groups; ++i) {
    ForEachTap(conv, g, [&](int64_t from, int64_t to) {
      columns[static_cast<size_t>(to)] = Wide(x[i * g.x_size() + from]);
    });
    const auto* gradient = dy + i * g.y_size();
    Wide* into = sums.data() + (i % g.groups) * g.k * g.window();
    if (IsFinite<A>(gradient, g.y_size())) {
      AddProduct({g.k, g.window(), g.positions()}, RowMajor(gradient, g.positions()),
                 Transposed(RowMajor<Wide>(columns.data(), g.positions())), into);
      continue;
    }
    ForEachTap(conv, g, [&](int64_t, int64_t column) {
      for (int64_t k = 0; k < g.k; ++k) {
        into[k * g.window() + column / g.positions()] +=
            Wide(gradient[k * g.positions() + column % g.positions()]) *
            columns[static_cast<size_t>(column)];
      }
    });
  }
  std::transform(sums.begin(), sums.end(), dw.data, &A::Round);
}

template <class A>
void ChannelSums(TensorPiece<const typename A::T> dy, TensorPiece<typename A::T> db) {
  const int64_t positions = dy.extent(2) * dy.extent(3);
  for (int64_t k = 0; k < db.extent(0); ++k) {
    typename A::Wide sum{};
    for (int64_t n = 0; n < dy.extent(0); ++n) {
      const auto* row = dy.data + (n * dy.extent(1) + k) * positions;
      for (int64_t i = 0; i < positions; ++i) sum += typename A::Wide(row[i]);
    }
    db.data[k] = A::Round(sum);
  }
}

}  // namespace

template <class A>
absl::Status RunKernel(const Conv2d& conv, A, const KernelSignature& signature,
                       const KernelArguments& arguments) {
  using T = typename A::T;
  const auto in = [&](size_t k) { return Input<T>(signature, arguments, k); };
  const TensorPiece<T> out = Output<T>(signature, arguments);
  if (!out.present) return absl::OkStatus();
  switch (signature.pass.gradient) {
    case -1: {
      const T* bias = signature.inputs.size() > 2 && in(2).present ? in(2).data : nullptr;
      Forward<A>(conv, in(0), in(1), bias, out);
      return absl::OkStatus();
    }
    case 0:
      InputGradient<A>(conv, MakeGeometry(conv, out.shape, in(0).shape, in(1).shape), in(0).data,
                       in(1).data, out.data);
      return absl::OkStatus();
    case 1:
      WeightGradient<A>(conv, MakeGeometry(conv, in(0).shape, out.shape, in(1).shape), in(0).data,
                        in(1).data, out);
      return absl::OkStatus();
    default:
      ChannelSums<A>(in(0), out);
      return absl::OkStatus();
  }
}

template absl::Status RunKernel(const Conv2d&, FloatArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const Conv2d&, DoubleArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const Conv2d&, RingArithmetic, const KernelSignature&,
                                const KernelArguments&);

}  // namespace partita
