#include "runtime/backend/reference/lstm_gates_kernel.h"

#include "runtime/backend/reference/tensor_piece.h"

namespace partita {
namespace {

// One unit of a cell: its gates, and its states before and after.
template <class A>
struct Unit {
  using Wide = typename A::Wide;
  Wide i, f, g, o, before, after, squashed;

  template <class T>
  Unit(const T* a, const T* b, const T* c, int64_t k) {
    const auto z = [&](int64_t gate) {
      return b == nullptr ? Wide(a[4 * k + gate]) : Wide(a[4 * k + gate]) + Wide(b[4 * k + gate]);
    };
    i = A::Sigmoid(z(0));
    f = A::Sigmoid(z(1));
    g = A::Tanh(z(2));
    o = A::Sigmoid(z(3));
    before = c == nullptr ? A::Integer(0) : Wide(c[k]);
    after = f * before + i * g;
    squashed = A::Tanh(after);
  }
  Wide Hidden() const { return o * squashed; }
  // Gradient of c', of which dh has a part.
  Wide AfterGradient(Wide dh, Wide dc) const {
    return dc + dh * o * (A::Integer(1) - squashed * squashed);
  }
  void StoreGradients(Wide dh, Wide dc, typename A::T* dz) const {
    const Wide one = A::Integer(1), after_gradient = AfterGradient(dh, dc);
    dz[0] = A::Round(after_gradient * g * (i * (one - i)));
    dz[1] = A::Round(after_gradient * before * (f * (one - f)));
    dz[2] = A::Round(after_gradient * i * (one - g * g));
    dz[3] = A::Round(dh * squashed * (o * (one - o)));
  }
};

}  // namespace

template <class A>
absl::Status RunKernel(const LstmGates& gates, A, const KernelSignature& signature,
                       const KernelArguments& arguments) {
  using T = typename A::T;
  using Wide = typename A::Wide;
  const T* const a = Input<T>(signature, arguments, 0).data;
  const T* const b = gates.first ? nullptr : Input<T>(signature, arguments, 1).data;
  const T* const c = gates.first ? nullptr : Input<T>(signature, arguments, 2).data;
  const TensorPiece<T> out = Output<T>(signature, arguments);
  if (signature.pass.is_forward()) {
    T* const cell = Output<T>(signature, arguments, 1).data;
    for (int64_t k = 0; k < out.size(); ++k) {
      const Unit<A> unit(a, b, c, k);
      out.data[k] = A::Round(unit.Hidden());
      cell[k] = A::Round(unit.after);
    }
    return absl::OkStatus();
  }
  const size_t reads = gates.first ? 1 : 3;
  const TensorPiece<const T> dh = Input<T>(signature, arguments, reads);
  const T* const dc = Input<T>(signature, arguments, reads + 1).data;
  for (int64_t k = 0; k < dh.size(); ++k) {
    const Unit<A> unit(a, b, c, k);
    const Wide of_hidden(dh.data[k]), of_cell(dc[k]);
    if (signature.pass.gradient == 2) {
      out.data[k] = A::Round(unit.AfterGradient(of_hidden, of_cell) * unit.f);
    } else {
      unit.StoreGradients(of_hidden, of_cell, out.data + 4 * k);
    }
  }
  return absl::OkStatus();
}

template absl::Status RunKernel(const LstmGates&, FloatArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const LstmGates&, DoubleArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const LstmGates&, RingArithmetic, const KernelSignature&,
                                const KernelArguments&);

}  // namespace partita
