#include "runtime/backend/reference/reduce_kernels.h"

#include <algorithm>
#include <vector>

#include "runtime/backend/reference/strided_walk.h"
#include "runtime/backend/reference/tensor_piece.h"

namespace partita {
namespace {

// Strides of the mean's result along the dimensions of x: 0 along the axes.
std::vector<int64_t> ResultStrides(const ReduceMean& mean, const Shape& x) {
  Shape kept = x;
  for (int64_t axis : mean.axes) kept[static_cast<size_t>(axis)] = 1;
  std::vector<int64_t> strides = RowMajorStrides(kept);
  for (int64_t axis : mean.axes) strides[static_cast<size_t>(axis)] = 0;
  return strides;
}

}  // namespace

template <class A>
absl::Status RunKernel(const ReduceMean& mean, A, const KernelSignature& signature,
                       const KernelArguments& arguments) {
  using T = typename A::T;
  using Wide = typename A::Wide;
  const TensorPiece<const T> in = Input<T>(signature, arguments, 0);
  const TensorPiece<T> out = Output<T>(signature, arguments);
  const Wide share = A::OneOver(mean.count);
  if (!signature.pass.is_forward()) {
    ForEachElement(out.shape, ResultStrides(mean, out.shape), [&](int64_t i, int64_t from) {
      out.data[i] = A::Round(Wide(in.data[from]) * share);
    });
    return absl::OkStatus();
  }
  std::vector<Wide> sums(static_cast<size_t>(out.size()));
  ForEachElement(in.shape, ResultStrides(mean, in.shape),
                 [&](int64_t i, int64_t to) { sums[static_cast<size_t>(to)] += Wide(in.data[i]); });
  for (size_t i = 0; i < sums.size(); ++i) out.data[i] = A::Round(sums[i] * share);
  return absl::OkStatus();
}

template absl::Status RunKernel(const ReduceMean&, FloatArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const ReduceMean&, DoubleArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const ReduceMean&, RingArithmetic, const KernelSignature&,
                                const KernelArguments&);

}  // namespace partita
