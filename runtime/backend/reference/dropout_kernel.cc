#include "runtime/backend/reference/dropout_kernel.h"

#include "runtime/backend/reference/tensor_piece.h"

namespace partita {
namespace {

// Calls visit(i, index, count) for each run of elements i, i + 1, ... of a piece whose global
// row-major indices are index, index + 1, ...
template <class T, class Visit>
void ForEachGlobalRun(const TensorPiece<T>& piece, Visit&& visit) {
  const size_t rank = piece.shape.size();
  const int64_t run = rank == 0 ? 1 : piece.shape[rank - 1];
  for (int64_t i = 0, size = piece.size(); i < size; i += run) {
    int64_t rest = i, index = 0, stride = 1;
    for (size_t d = rank; d-- > 0;) {
      index += (piece.box[static_cast<int>(d)].lo + rest % piece.shape[d]) * stride;
      rest /= piece.shape[d];
      stride *= piece.global[d];
    }
    visit(i, index, run);
  }
}

}  // namespace

// Forward and gradient alike: one input, times the mask.
template <class A>
absl::Status RunKernel(const Dropout& dropout, A, const KernelSignature& signature,
                       const KernelArguments& arguments) {
  using T = typename A::T;
  using Wide = typename A::Wide;
  const TensorPiece<const T> in = Input<T>(signature, arguments, 0);
  const TensorPiece<T> out = Output<T>(signature, arguments);
  const DropoutMask mask(dropout.ratio, arguments.step.seed, arguments.step.step,
                         arguments.operator_key);
  const Wide scale = A::Constant(1 / (1 - dropout.ratio));
  ForEachGlobalRun(in, [&](int64_t i, int64_t index, int64_t count) {
    mask.ForEachOfRun(index, count, [&](int64_t k, bool keeps) {
      out.data[i + k] = keeps ? A::Round(Wide(in.data[i + k]) * scale) : T();
    });
  });
  return absl::OkStatus();
}

template absl::Status RunKernel(const Dropout&, FloatArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const Dropout&, DoubleArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const Dropout&, RingArithmetic, const KernelSignature&,
                                const KernelArguments&);

}  // namespace partita
