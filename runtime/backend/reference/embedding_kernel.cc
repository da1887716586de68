#include "runtime/backend/reference/embedding_kernel.h"

#include <algorithm>
#include <vector>

#include "runtime/backend/reference/tensor_piece.h"

namespace partita {

template <class A>
absl::Status RunKernel(const Embedding&, A, const KernelSignature& signature,
                       const KernelArguments& arguments) {
  using T = typename A::T;
  using Wide = typename A::Wide;
  const auto indices = Input<int32_t>(signature, arguments, 0);
  const TensorPiece<const T> in = Input<T>(signature, arguments, 1);  // the table, or dy
  const TensorPiece<T> out = Output<T>(signature, arguments);
  const bool forward = signature.pass.is_forward();
  // The rows of the table that this part has.
  const Interval rows = forward ? in.box[0] : out.box[0];
  const int64_t channels = out.shape.back();
  std::vector<Wide> sums(static_cast<size_t>(out.size()));
  for (int64_t k = 0; k < indices.size(); ++k) {
    const int64_t index = indices.data[k];
    if (index < rows.lo || index >= rows.hi) continue;
    const int64_t row = index - rows.lo;
    const int64_t from = forward ? row : k, to = forward ? k : row;
    for (int64_t c = 0; c < channels; ++c) {
      sums[static_cast<size_t>(to * channels + c)] += Wide(in.data[from * channels + c]);
    }
  }
  std::transform(sums.begin(), sums.end(), out.data, &A::Round);
  return absl::OkStatus();
}

template absl::Status RunKernel(const Embedding&, FloatArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const Embedding&, DoubleArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const Embedding&, RingArithmetic, const KernelSignature&,
                                const KernelArguments&);

}  // namespace partita
