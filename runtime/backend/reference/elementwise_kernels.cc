#include "runtime/backend/reference/elementwise_kernels.h"

#include <algorithm>
#include <vector>

#include "runtime/backend/reference/strided_walk.h"
#include "runtime/backend/reference/tensor_piece.h"

namespace partita {
namespace {

// Strides of `operand` along the dimensions of `result`: 0 where it repeats.
std::vector<int64_t> BroadcastStrides(const Shape& operand, const Shape& result) {
  std::vector<int64_t> strides(result.size(), 0);
  int64_t stride = 1;
  for (size_t d = 1; d <= operand.size(); ++d) {
    const int64_t extent = operand[operand.size() - d];
    if (extent != 1) strides[result.size() - d] = stride;
    stride *= extent;
  }
  return strides;
}

template <class A>
std::vector<typename A::Wide> Broadcast(const TensorPiece<const typename A::T>& operand,
                                        const Shape& shape) {
  std::vector<typename A::Wide> values(static_cast<size_t>(Volume(shape)));
  ForEachElement(shape, BroadcastStrides(operand.shape, shape), [&](int64_t i, int64_t position) {
    values[static_cast<size_t>(i)] = typename A::Wide(operand.data[position]);
  });
  return values;
}

template <class Wide>
Wide Apply(char function, Wide a, Wide b) {
  return function == 'a' ? a + b : function == 's' ? a - b : a * b;
}

template <class A>
void BinaryGradient(const Binary& binary, const KernelSignature& signature,
                    const KernelArguments& arguments) {
  using T = typename A::T;
  using Wide = typename A::Wide;
  const TensorPiece<const T> dy = Input<T>(signature, arguments, signature.inputs.size() - 1);
  const TensorPiece<T> out = Output<T>(signature, arguments);
  std::vector<Wide> terms(dy.data, dy.data + dy.size());
  if (binary.function == "mul") {
    const std::vector<Wide> other = Broadcast<A>(Input<T>(signature, arguments, 0), dy.shape);
    for (size_t i = 0; i < terms.size(); ++i) terms[i] *= other[i];
  } else if (binary.function == "sub" && signature.pass.gradient == 1) {
    for (Wide& term : terms) term = -term;
  }
  std::vector<Wide> sums(static_cast<size_t>(out.size()));
  ForEachElement(dy.shape, BroadcastStrides(out.shape, dy.shape), [&](int64_t i, int64_t position) {
    sums[static_cast<size_t>(position)] += terms[static_cast<size_t>(i)];
  });
  std::transform(sums.begin(), sums.end(), out.data, &A::Round);
}

}  // namespace

template <class A>
absl::Status RunKernel(const Relu&, A, const KernelSignature& signature,
                       const KernelArguments& arguments) {
  using T = typename A::T;
  using Wide = typename A::Wide;
  const TensorPiece<T> out = Output<T>(signature, arguments);
  if (signature.pass.is_forward()) {
    const TensorPiece<const T> x = Input<T>(signature, arguments, 0);
    // Not-a-number stays what it is.
    for (int64_t i = 0; i < out.size(); ++i) {
      out.data[i] = A::Less(Wide(x.data[i]), Wide()) ? T() : x.data[i];
    }
    return absl::OkStatus();
  }
  const TensorPiece<const T> y = Input<T>(signature, arguments, 0);
  const TensorPiece<const T> dy = Input<T>(signature, arguments, 1);
  for (int64_t i = 0; i < out.size(); ++i) {
    out.data[i] = A::Less(Wide(), Wide(y.data[i])) ? dy.data[i] : T();
  }
  return absl::OkStatus();
}

template <class A>
absl::Status RunKernel(const Scale& scale, A, const KernelSignature& signature,
                       const KernelArguments& arguments) {
  using T = typename A::T;
  using Wide = typename A::Wide;
  const TensorPiece<const T> in = Input<T>(signature, arguments, 0);
  const TensorPiece<T> out = Output<T>(signature, arguments);
  const Wide alpha = A::Constant(scale.alpha);
  const Wide beta = signature.pass.is_forward() ? A::Constant(scale.beta) : Wide();
  for (int64_t i = 0; i < out.size(); ++i) out.data[i] = A::Round(alpha * Wide(in.data[i]) + beta);
  return absl::OkStatus();
}

template <class A>
absl::Status RunKernel(const Binary& binary, A, const KernelSignature& signature,
                       const KernelArguments& arguments) {
  using T = typename A::T;
  if (!signature.pass.is_forward()) {
    BinaryGradient<A>(binary, signature, arguments);
    return absl::OkStatus();
  }
  const TensorPiece<T> y = Output<T>(signature, arguments);
  const auto a = Broadcast<A>(Input<T>(signature, arguments, 0), y.shape);
  const auto b = Broadcast<A>(Input<T>(signature, arguments, 1), y.shape);
  const char function = binary.function[0];
  for (size_t i = 0; i < a.size(); ++i) y.data[i] = A::Round(Apply(function, a[i], b[i]));
  return absl::OkStatus();
}

template absl::Status RunKernel(const Relu&, FloatArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const Relu&, DoubleArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const Relu&, RingArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const Scale&, FloatArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const Scale&, DoubleArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const Scale&, RingArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const Binary&, FloatArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const Binary&, DoubleArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const Binary&, RingArithmetic, const KernelSignature&,
                                const KernelArguments&);

}  // namespace partita
