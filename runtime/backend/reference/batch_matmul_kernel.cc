#include "runtime/backend/reference/batch_matmul_kernel.h"

#include "runtime/backend/reference/matrix_product.h"
#include "runtime/backend/reference/tensor_piece.h"

namespace partita {

template <class A>
absl::Status RunKernel(const BatchMatMul& matmul, A, const KernelSignature& signature,
                       const KernelArguments& arguments) {
  using T = typename A::T;
  const auto first = Input<T>(signature, arguments, 0), second = Input<T>(signature, arguments, 1);
  const TensorPiece<T> out = Output<T>(signature, arguments);
  const BatchMatMulExtents z =
      ExtentsOf(matmul, signature.pass, first.shape, second.shape, out.shape);
  const int64_t a_size = z.rows * z.in, b_size = z.in * z.out, y_size = z.rows * z.out;
  const auto b_at = [&](const T* data) {  // [in, out]
    return matmul.transposed ? Transposed(RowMajor(data, z.in)) : RowMajor(data, z.out);
  };
  for (int64_t p = 0; p < z.products; ++p) {
    if (signature.pass.is_forward()) {
      StoreProduct<A>({z.rows, z.out, z.in}, RowMajor(first.data + p * a_size, z.in),
                      b_at(second.data + p * b_size), out.data + p * y_size);
      continue;
    }
    const MatrixView<T> dy = RowMajor(second.data + p * y_size, z.out);
    if (signature.pass.gradient == 0) {
      StoreProduct<A>({z.rows, z.in, z.out}, dy, Transposed(b_at(first.data + p * b_size)),
                      out.data + p * a_size);
      continue;
    }
    const MatrixView<T> a = RowMajor(first.data + p * a_size, z.in);
    if (matmul.transposed) {
      StoreProduct<A>({z.out, z.in, z.rows}, Transposed(dy), a, out.data + p * b_size);
    } else {
      StoreProduct<A>({z.in, z.out, z.rows}, Transposed(a), dy, out.data + p * b_size);
    }
  }
  return absl::OkStatus();
}

template absl::Status RunKernel(const BatchMatMul&, FloatArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const BatchMatMul&, DoubleArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const BatchMatMul&, RingArithmetic, const KernelSignature&,
                                const KernelArguments&);

}  // namespace partita
