#include "runtime/backend/reference/matmul_kernel.h"

#include "runtime/backend/reference/matrix_product.h"
#include "runtime/backend/reference/tensor_piece.h"

namespace partita {
namespace {

template <class T>
int64_t Rows(const TensorPiece<T>& piece) {
  int64_t rows = 1;
  for (size_t d = 0; d + 1 < piece.shape.size(); ++d) rows *= piece.shape[d];
  return rows;
}

template <class T>
int64_t Columns(const TensorPiece<T>& piece) {
  return piece.shape.back();
}

// The weights as a matrix [i, o].
template <class T>
MatrixView<T> InByOut(const MatMul& matmul, const TensorPiece<const T>& w) {
  const MatrixView<T> stored = RowMajor(w.data, w.shape[1]);
  return matmul.transposed ? Transposed(stored) : stored;
}

template <class A>
void Forward(const MatMul& matmul, TensorPiece<const typename A::T> x,
             TensorPiece<const typename A::T> w, const typename A::T* bias,
             TensorPiece<typename A::T> y) {
  using Wide = typename A::Wide;
  const int64_t columns = Columns(y);
  std::vector<Wide> sums(static_cast<size_t>(y.size()));
  for (int64_t j = 0; bias != nullptr && j < y.size(); ++j) {
    sums[static_cast<size_t>(j)] = Wide(bias[j % columns]);
  }
  AddProduct({Rows(y), columns, Columns(x)}, RowMajor(x.data, Columns(x)), InByOut(matmul, w),
             sums.data());
  std::transform(sums.begin(), sums.end(), y.data, &A::Round);
}

template <class A>
void WeightGradient(const MatMul& matmul, TensorPiece<const typename A::T> x,
                    TensorPiece<const typename A::T> dy, typename A::T* dw) {
  const auto x_matrix = RowMajor(x.data, Columns(x));
  const auto dy_matrix = RowMajor(dy.data, Columns(dy));
  if (matmul.transposed) {
    StoreProduct<A>({Columns(dy), Columns(x), Rows(x)}, Transposed(dy_matrix), x_matrix, dw);
  } else {
    StoreProduct<A>({Columns(x), Columns(dy), Rows(x)}, Transposed(x_matrix), dy_matrix, dw);
  }
}

template <class A>
void ColumnSums(TensorPiece<const typename A::T> dy, TensorPiece<typename A::T> db) {
  using Wide = typename A::Wide;
  const int64_t columns = Columns(dy);
  std::vector<Wide> sums(static_cast<size_t>(columns));
  for (int64_t i = 0; i < dy.size(); ++i) {
    sums[static_cast<size_t>(i % columns)] += Wide(dy.data[i]);
  }
  std::transform(sums.begin(), sums.end(), db.data, &A::Round);
}

}  // namespace

template <class A>
absl::Status RunKernel(const MatMul& matmul, A, const KernelSignature& signature,
                       const KernelArguments& arguments) {
  using T = typename A::T;
  const auto in = [&](size_t k) { return Input<T>(signature, arguments, k); };
  const TensorPiece<T> out = Output<T>(signature, arguments);
  if (!out.present) return absl::OkStatus();
  switch (signature.pass.gradient) {
    case -1: {
      const T* bias = signature.inputs.size() > 2 && in(2).present ? in(2).data : nullptr;
      Forward<A>(matmul, in(0), in(1), bias, out);
      return absl::OkStatus();
    }
    case 0:
      StoreProduct<A>({Rows(out), Columns(out), Columns(in(1))},
                      RowMajor(in(1).data, Columns(in(1))), Transposed(InByOut(matmul, in(0))),
                      out.data);
      return absl::OkStatus();
    case 1:
      WeightGradient<A>(matmul, in(0), in(1), out.data);
      return absl::OkStatus();
    default:
      ColumnSums<A>(in(0), out);
      return absl::OkStatus();
  }
}

template absl::Status RunKernel(const MatMul&, FloatArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const MatMul&, DoubleArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const MatMul&, RingArithmetic, const KernelSignature&,
                                const KernelArguments&);

}  // namespace partita
