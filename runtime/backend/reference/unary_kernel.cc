// Functions of one number as pairs of Value(x) and Gradient(read, dy), where `read` is what the
// gradient reads: x, or y = Value(x).

#include "runtime/backend/reference/unary_kernel.h"

#include "runtime/backend/reference/tensor_piece.h"

namespace partita {
namespace {

template <class A>
struct Erf {
  using Wide = typename A::Wide;
  static Wide Value(Wide x) { return A::Erf(x); }
  static Wide Gradient(Wide x, Wide dy) { return dy * A::ErfDerivative(x); }
};

template <class A>
struct Sigmoid {
  using Wide = typename A::Wide;
  static Wide Value(Wide x) { return A::Sigmoid(x); }
  static Wide Gradient(Wide y, Wide dy) { return dy * (y * (A::Integer(1) - y)); }
};

template <class A>
struct Tanh {
  using Wide = typename A::Wide;
  static Wide Value(Wide x) { return A::Tanh(x); }
  static Wide Gradient(Wide y, Wide dy) { return dy * (A::Integer(1) - y * y); }
};

// x * c(x), where c(x) = (1 + erf(x / sqrt(2))) / 2 is the normal distribution's.
template <class A>
struct Gelu {
  using Wide = typename A::Wide;
  static Wide Value(Wide x) { return x * Share(x); }
  static Wide Gradient(Wide x, Wide dy) {
    return dy * (Share(x) + x * (Half() * (Root() * A::ErfDerivative(Root() * x))));
  }

 private:
  static Wide Half() { return A::Constant(0.5); }
  static Wide Root() { return A::Constant(0.70710678118654752); }
  static Wide Share(Wide x) { return Half() * (A::Integer(1) + A::Erf(Root() * x)); }
};

// x * s(u(x)) with the sigmoid s, since (1 + tanh(u / 2)) / 2 = s(u).
template <class A>
struct GeluTanh {
  using Wide = typename A::Wide;
  static Wide Value(Wide x) { return x * A::Sigmoid(Inner(x)); }
  static Wide Gradient(Wide x, Wide dy) {
    const Wide one = A::Integer(1), share = A::Sigmoid(Inner(x));
    const Wide slope = Scale() * (one + A::Integer(3) * (Cubic() * (x * x)));
    return dy * (share + x * (share * (one - share)) * slope);
  }

 private:
  static Wide Scale() { return A::Constant(1.5957691216057308); }  // 2 sqrt(2 / pi)
  static Wide Cubic() { return A::Constant(0.044715); }
  static Wide Inner(Wide x) { return Scale() * (x + Cubic() * (x * (x * x))); }
};

template <class A>
struct HardSwish {
  using Wide = typename A::Wide;
  static Wide Value(Wide x) {
    return x * ByRange(x, A::Integer(0), (x + A::Integer(3)) * A::OneOver(6), A::Integer(1));
  }
  static Wide Gradient(Wide x, Wide dy) {
    const Wide slope = (x + x + A::Integer(3)) * A::OneOver(6);
    return ByRange(x, A::Integer(0), dy * slope, dy);
  }

 private:
  // `low` for x <= -3, `high` for x >= 3, else `between`, also where x is not-a-number.
  static Wide ByRange(Wide x, Wide low, Wide between, Wide high) {
    const auto first = A::Integer(-3), last = A::Integer(3);
    if (A::Less(x, first) || x == first) return low;
    if (A::Less(last, x) || x == last) return high;
    return between;
  }
};

template <class A, class Function>
void ApplyFunction(const KernelSignature& signature, const KernelArguments& arguments) {
  using T = typename A::T;
  using Wide = typename A::Wide;
  const TensorPiece<const T> read = Input<T>(signature, arguments, 0);
  const TensorPiece<T> out = Output<T>(signature, arguments);
  if (signature.pass.is_forward()) {
    for (int64_t i = 0; i < out.size(); ++i) {
      out.data[i] = A::Round(Function::Value(Wide(read.data[i])));
    }
    return;
  }
  const TensorPiece<const T> dy = Input<T>(signature, arguments, 1);
  for (int64_t i = 0; i < out.size(); ++i) {
    out.data[i] = A::Round(Function::Gradient(Wide(read.data[i]), Wide(dy.data[i])));
  }
}

}  // namespace

template <class A>
absl::Status RunKernel(const Unary& unary, A, const KernelSignature& signature,
                       const KernelArguments& arguments) {
  switch (FunctionOf(unary)) {
    case UnaryFunction::kErf:
      ApplyFunction<A, Erf<A>>(signature, arguments);
      break;
    case UnaryFunction::kGelu:
      ApplyFunction<A, Gelu<A>>(signature, arguments);
      break;
    case UnaryFunction::kGeluTanh:
      ApplyFunction<A, GeluTanh<A>>(signature, arguments);
      break;
    case UnaryFunction::kHardSwish:
      ApplyFunction<A, HardSwish<A>>(signature, arguments);
      break;
    case UnaryFunction::kSigmoid:
      ApplyFunction<A, Sigmoid<A>>(signature, arguments);
      break;
    case UnaryFunction::kTanh:
      ApplyFunction<A, Tanh<A>>(signature, arguments);
      break;
  }
  return absl::OkStatus();
}

template absl::Status RunKernel(const Unary&, FloatArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const Unary&, DoubleArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const Unary&, RingArithmetic, const KernelSignature&,
                                const KernelArguments&);

}  // namespace partita
