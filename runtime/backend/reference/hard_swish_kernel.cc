#include "runtime/backend/reference/hard_swish_kernel.h"

#include "runtime/backend/reference/tensor_piece.h"

namespace partita {
namespace {

// `low` for x <= -3, `high` for x >= 3, else `between`, also where x is not-a-number.
template <class A>
typename A::Wide ByRange(typename A::Wide x, typename A::Wide low, typename A::Wide between,
                         typename A::Wide high) {
  const auto first = A::Integer(-3), last = A::Integer(3);
  if (A::Less(x, first) || x == first) return low;
  if (A::Less(last, x) || x == last) return high;
  return between;
}

}  // namespace

template <class A>
absl::Status RunKernel(const HardSwish&, A, const KernelSignature& signature,
                       const KernelArguments& arguments) {
  using T = typename A::T;
  using Wide = typename A::Wide;
  const TensorPiece<const T> x = Input<T>(signature, arguments, 0);
  const TensorPiece<T> out = Output<T>(signature, arguments);
  const Wide zero = A::Integer(0), one = A::Integer(1), three = A::Integer(3);
  const Wide sixth = A::OneOver(6);
  if (signature.pass.is_forward()) {
    for (int64_t i = 0; i < out.size(); ++i) {
      const Wide value(x.data[i]);
      out.data[i] = A::Round(value * ByRange<A>(value, zero, (value + three) * sixth, one));
    }
    return absl::OkStatus();
  }
  const TensorPiece<const T> dy = Input<T>(signature, arguments, 1);
  for (int64_t i = 0; i < out.size(); ++i) {
    const Wide value(x.data[i]), gradient(dy.data[i]);
    const Wide slope = (value + value + three) * sixth;
    out.data[i] = A::Round(ByRange<A>(value, zero, gradient * slope, gradient));
  }
  return absl::OkStatus();
}

template absl::Status RunKernel(const HardSwish&, FloatArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const HardSwish&, DoubleArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const HardSwish&, RingArithmetic, const KernelSignature&,
                                const KernelArguments&);

}  // namespace partita
