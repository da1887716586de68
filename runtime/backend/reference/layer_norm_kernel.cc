#include "runtime/backend/reference/layer_norm_kernel.h"

#include <algorithm>
#include <vector>

#include "runtime/backend/reference/tensor_piece.h"

namespace partita {
namespace {

// A row of x, normalised, and what it was divided by, inverted.
template <class A>
struct NormalRow {
  using Wide = typename A::Wide;
  std::vector<Wide> xhat;
  Wide rstd;

  NormalRow(const typename A::T* x, int64_t size, double epsilon) : xhat(x, x + size), rstd() {
    const Wide share = A::OneOver(std::max<int64_t>(1, size));
    Wide mean{}, variance{};
    for (const Wide& value : xhat) mean += value;
    mean *= share;
    for (Wide& value : xhat) value -= mean;
    for (const Wide& value : xhat) variance += value * value;
    rstd = A::Rsqrt(variance * share + A::Constant(epsilon));
    for (Wide& value : xhat) value *= rstd;
  }
};

template <class A>
void InputGradient(const NormalRow<A>& row, const typename A::T* gamma, const typename A::T* dy,
                   typename A::T* dx) {
  using Wide = typename A::Wide;
  const size_t size = row.xhat.size();
  const Wide share = A::OneOver(static_cast<int64_t>(size));
  std::vector<Wide> gradients(size);
  Wide sum{}, along{};
  for (size_t i = 0; i < size; ++i) {
    gradients[i] = Wide(dy[i]) * Wide(gamma[i]);
    sum += gradients[i];
    along += gradients[i] * row.xhat[i];
  }
  for (size_t i = 0; i < size; ++i) {
    dx[i] = A::Round(row.rstd * (gradients[i] - sum * share - row.xhat[i] * (along * share)));
  }
}

// db, or dgamma where there is an x.
template <class A>
void WeightGradient(const LayerNorm& norm, const TensorPiece<const typename A::T>& dy,
                    const typename A::T* x, const TensorPiece<typename A::T>& out) {
  using Wide = typename A::Wide;
  const int64_t size = out.size();
  std::vector<Wide> sums(static_cast<size_t>(size));
  for (int64_t at = 0; at < dy.size(); at += size) {
    if (x == nullptr) {
      for (int64_t i = 0; i < size; ++i) sums[static_cast<size_t>(i)] += Wide(dy.data[at + i]);
      continue;
    }
    const NormalRow<A> row(x + at, size, norm.epsilon);
    for (int64_t i = 0; i < size; ++i) {
      sums[static_cast<size_t>(i)] += Wide(dy.data[at + i]) * row.xhat[static_cast<size_t>(i)];
    }
  }
  std::transform(sums.begin(), sums.end(), out.data, &A::Round);
}

}  // namespace

template <class A>
absl::Status RunKernel(const LayerNorm& norm, A, const KernelSignature& signature,
                       const KernelArguments& arguments) {
  using T = typename A::T;
  using Wide = typename A::Wide;
  const TensorPiece<T> out = Output<T>(signature, arguments);
  const int gradient = signature.pass.gradient;
  if (gradient == 1 || gradient == 2) {
    const size_t dy_at = gradient == 1 ? 1 : 0;
    WeightGradient<A>(norm, Input<T>(signature, arguments, dy_at),
                      gradient == 1 ? Input<T>(signature, arguments, 0).data : nullptr, out);
    return absl::OkStatus();
  }
  const auto x = Input<T>(signature, arguments, 0);
  const T* const gamma = Input<T>(signature, arguments, 1).data;
  const T* const third = Input<T>(signature, arguments, 2).data;  // beta, or dy
  const int64_t size = x.shape.back();
  for (int64_t at = 0; at < x.size(); at += size) {
    const NormalRow<A> row(x.data + at, size, norm.epsilon);
    if (gradient == 0) {
      InputGradient<A>(row, gamma, third + at, out.data + at);
      continue;
    }
    for (int64_t i = 0; i < size; ++i) {
      out.data[at + i] =
          A::Round(row.xhat[static_cast<size_t>(i)] * Wide(gamma[i]) + Wide(third[i]));
    }
  }
  return absl::OkStatus();
}

template absl::Status RunKernel(const LayerNorm&, FloatArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const LayerNorm&, DoubleArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const LayerNorm&, RingArithmetic, const KernelSignature&,
                                const KernelArguments&);

}  // namespace partita
