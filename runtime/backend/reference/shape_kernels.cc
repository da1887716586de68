#include "runtime/backend/reference/shape_kernels.h"

#include <algorithm>
#include <vector>

#include "runtime/backend/reference/strided_walk.h"
#include "runtime/backend/reference/tensor_piece.h"

namespace partita {
namespace {

// A part's elements keep their order: reshape and crop.
template <class A>
absl::Status CopyAll(const KernelSignature& signature, const KernelArguments& arguments) {
  using T = typename A::T;
  const TensorPiece<const T> in = Input<T>(signature, arguments, 0);
  const TensorPiece<T> out = Output<T>(signature, arguments);
  CHECK_EQ(in.size(), out.size());
  if (in.data != out.data) std::copy_n(in.data, in.size(), out.data);
  return absl::OkStatus();
}

// Offset of the first element of the border's inside in the padded tensor.
int64_t InsideOffset(const Pad& pad, const std::vector<int64_t>& strides) {
  int64_t offset = 0;
  for (size_t d = 0; d < strides.size(); ++d) offset += pad.pads[d] * strides[d];
  return offset;
}

}  // namespace

template <class A>
absl::Status RunKernel(const Reshape&, A, const KernelSignature& signature,
                       const KernelArguments& arguments) {
  return CopyAll<A>(signature, arguments);
}

template <class A>
absl::Status RunKernel(const Crop&, A, const KernelSignature& signature,
                       const KernelArguments& arguments) {
  return CopyAll<A>(signature, arguments);
}

template <class A>
absl::Status RunKernel(const Transpose& transpose, A, const KernelSignature& signature,
                       const KernelArguments& arguments) {
  using T = typename A::T;
  const TensorPiece<const T> in = Input<T>(signature, arguments, 0);
  const TensorPiece<T> out = Output<T>(signature, arguments);
  const bool forward = signature.pass.is_forward();
  // Walk over y; dimension d of y is dimension perm[d] of x.
  const std::vector<int64_t> x_strides = RowMajorStrides(forward ? in.shape : out.shape);
  std::vector<int64_t> strides;
  for (int64_t d : transpose.perm) strides.push_back(x_strides[static_cast<size_t>(d)]);
  ForEachElement(forward ? out.shape : in.shape, strides, [&](int64_t y, int64_t x) {
    if (forward) {
      out.data[y] = in.data[x];
    } else {
      out.data[x] = in.data[y];
    }
  });
  return absl::OkStatus();
}

template <class A>
absl::Status RunKernel(const Concat& concat, A, const KernelSignature& signature,
                       const KernelArguments& arguments) {
  using T = typename A::T;
  const auto axis = static_cast<size_t>(concat.axis);
  const bool forward = signature.pass.is_forward();
  const Shape& y = forward ? signature.outputs[0].type.shape : signature.inputs[0].type.shape;
  int64_t outer = 1, inner = 1;
  for (size_t d = 0; d < y.size(); ++d) (d < axis ? outer : inner) *= d == axis ? 1 : y[d];
  int64_t offset = 0;
  for (size_t k = 0; k < concat.sizes.size(); ++k) {
    const int64_t run = concat.sizes[k] * inner;
    for (int64_t i = 0; i < outer && run > 0; ++i) {
      const int64_t whole = (i * y[axis] + offset) * inner;
      if (forward) {
        std::copy_n(Input<T>(signature, arguments, k).data + i * run, run,
                    Output<T>(signature, arguments).data + whole);
      } else if (signature.pass.gradient == static_cast<int>(k)) {
        std::copy_n(Input<T>(signature, arguments, 0).data + whole, run,
                    Output<T>(signature, arguments).data + i * run);
      }
    }
    offset += concat.sizes[k];
  }
  return absl::OkStatus();
}

template <class A>
absl::Status RunKernel(const Pad& pad, A, const KernelSignature& signature,
                       const KernelArguments& arguments) {
  using T = typename A::T;
  const TensorPiece<const T> in = Input<T>(signature, arguments, 0);
  const TensorPiece<T> out = Output<T>(signature, arguments);
  const bool forward = signature.pass.is_forward();
  const Shape& inside = forward ? in.shape : out.shape;
  const std::vector<int64_t> strides = RowMajorStrides(forward ? out.shape : in.shape);
  const int64_t first = InsideOffset(pad, strides);
  if (forward) std::fill_n(out.data, out.size(), A::Round(A::Constant(pad.value)));
  ForEachElement(inside, strides, [&](int64_t i, int64_t position) {
    if (forward) {
      out.data[first + position] = in.data[i];
    } else {
      out.data[i] = in.data[first + position];
    }
  });
  return absl::OkStatus();
}

template absl::Status RunKernel(const Reshape&, FloatArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const Reshape&, DoubleArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const Reshape&, RingArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const Crop&, FloatArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const Crop&, DoubleArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const Crop&, RingArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const Transpose&, FloatArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const Transpose&, DoubleArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const Transpose&, RingArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const Concat&, FloatArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const Concat&, DoubleArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const Concat&, RingArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const Pad&, FloatArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const Pad&, DoubleArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const Pad&, RingArithmetic, const KernelSignature&,
                                const KernelArguments&);

}  // namespace partita
