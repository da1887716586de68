#include "runtime/backend/cuda/plan/conversion_plan.h"

// A row-major matrix is its transpose in column-major order, so each product is planned as that of
// the transposes: with y' = w' x', the out rows of y' carry the bias.

namespace partita {
namespace {

// One side of a product: a row-major matrix in memory, `wide` elements from row to row; read by
// BLAS as its transpose [wide, rows].
struct Side {
  const float* data = nullptr;
  int64_t wide = 0;
  bool transpose = false;  // of what BLAS reads
};

struct Sizes {
  int64_t rows = 1, in = 1, out = 1;
};

Sizes SizesOf(const MatMul& matmul, const KernelPlanner& planner) {
  const int gradient = planner.pass().gradient;
  const Shape& w = gradient == 1   ? planner.out_shape()
                   : gradient == 0 ? planner.in_shape(0)
                                   : planner.in_shape(1);
  const Shape& y = gradient < 0 ? planner.out_shape() : planner.in_shape(1);
  Sizes sizes;
  sizes.in = matmul.transposed ? w[1] : w[0];
  sizes.out = matmul.transposed ? w[0] : w[1];
  for (size_t d = 0; d + 1 < y.size(); ++d) sizes.rows *= y[d];
  return sizes;
}

// Extents of `batch` products op(a)[m, k] * op(b)[k, n] of matrices that follow each other in memory.
struct ProductExtents {
  int64_t m, n, k;
  int64_t batch = 1;
};

// Place of a product's result, and what is done to it.
struct Target {
  float* c = nullptr;
  const float* bias = nullptr;
  bool has_bias = false, relu = false;
};

// Rows of 16-bit numbers start at multiples of 16 bytes, as tensor cores want them.
int64_t EvenPitch(int64_t wide) { return (wide + 7) / 8 * 8; }

// Makes the product one of converted operands.
void PlanFactors(MatrixOperand a, MatrixOperand b, Gemm& gemm, KernelPlanner& planner) {
  a.pitch = EvenPitch(a.wide);
  b.pitch = EvenPitch(b.wide);
  constexpr int kLargest = 15;  // float16 ends at 2^16; the product is a float32
  const ConvertedOperand a_factor = PlanMatrixOperand(a, kLargest, planner);
  const ConvertedOperand b_factor = PlanMatrixOperand(b, kLargest, planner);
  gemm.a = a_factor.data;
  gemm.b = b_factor.data;
  gemm.shape.lda = a.pitch;
  gemm.shape.ldb = b.pitch;
  if (gemm.shape.precision != Precision::kFloat16) return;
  auto* factors = planner.Scratch<float>(2);
  planner.ForEach(1, ProductFactorsElement{a_factor.scale, b_factor.scale, factors});
  gemm.factors = factors;
}

// Row-major c[batch, n, m] whose matrices' transposes are op(a)[m, k] * op(b)[k, n].
void PlanProduct(const Side& a, const Side& b, const ProductExtents& extents, const Target& target,
                 KernelPlanner& planner) {
  const auto [m, n, k, batch] = extents;
  float* const c = target.c;
  const int64_t count = batch * m * n;
  if (count == 0) return;
  if (k == 0) {
    planner.ForEach(count, FillElement{c, 0.0f});
    if (target.has_bias) {
      planner.ForEach(count,
                      BiasElement{target.bias, c, Divisor::Of(1), Divisor::Of(m), target.relu});
    }
    return;
  }
  Gemm gemm;
  gemm.shape = {a.transpose,
                b.transpose,
                m,
                n,
                k,
                a.wide,
                b.wide,
                m,
                target.has_bias,
                planner.options().precision,
                planner.options().deterministic,
                batch};
  const MatrixOperand a_matrices{a.data, batch * (a.transpose ? m : k), a.wide};
  const MatrixOperand b_matrices{b.data, batch * (b.transpose ? k : n), b.wide};
  gemm.a = a.data;
  gemm.b = b.data;
  gemm.bias = target.bias;
  gemm.c = c;
  if (TypeOf(gemm.shape.precision) != NumberType::kFloat32) {
    PlanFactors(a_matrices, b_matrices, gemm, planner);
  }
  gemm.shape.stride_a = a_matrices.rows / batch * gemm.shape.lda;
  gemm.shape.stride_b = b_matrices.rows / batch * gemm.shape.ldb;
  gemm.shape.stride_c = m * n;
  planner.Add(gemm);
  // cuBLASLt does not say what its own ReLU makes of NaN.
  if (target.relu) planner.ForEach(count, ReluElement{c, c});
}

void PlanBiasGradient(KernelPlanner& planner) {
  const Shape& dy = planner.in_shape(0);
  const int64_t out = dy.back();
  int64_t rows = 1;
  for (size_t d = 0; d + 1 < dy.size(); ++d) rows *= dy[d];
  const std::vector<int64_t> one = {1}, outs = {out}, all_rows = {rows};
  SumReduction sum;
  sum.a = planner.In(0);
  sum.a_rows = planner.Walk(outs, one);
  sum.a_terms = planner.Walk(all_rows, outs);
  sum.y = planner.Out();
  planner.Reduce(out, rows, true, sum);
}

}  // namespace

void PlanOperator(const MatMul& matmul, KernelPlanner& planner) {
  if (planner.pass().gradient == 2) return PlanBiasGradient(planner);
  const Sizes z = SizesOf(matmul, planner);
  const bool t = matmul.transposed;  // w is [out, in], which BLAS reads as [in, out]
  const int64_t w_wide = t ? z.in : z.out;
  switch (planner.pass().gradient) {
    case -1: {
      const bool bias = planner.inputs() > 2 && planner.present(2);
      const Target target{planner.Out(), bias ? planner.In(2) : nullptr, bias,
                          HasOnlyEpilogue(planner.signature())};
      return PlanProduct({planner.In(1), w_wide, t}, {planner.In(0), z.in, false},
                         {z.out, z.rows, z.in}, target, planner);
    }
    case 0:  // dx[rows, in] = dy[rows, out] * w
      return PlanProduct({planner.In(0), w_wide, !t}, {planner.In(1), z.out, false},
                         {z.in, z.rows, z.out}, {planner.Out()}, planner);
    default:  // dw[out, in] = dy^T * x, or its transpose
      if (t) {
        return PlanProduct({planner.In(0), z.in, false}, {planner.In(1), z.out, true},
                           {z.in, z.out, z.rows}, {planner.Out()}, planner);
      }
      return PlanProduct({planner.In(1), z.out, false}, {planner.In(0), z.in, true},
                         {z.out, z.in, z.rows}, {planner.Out()}, planner);
  }
}

void PlanOperator(const BatchMatMul& matmul, KernelPlanner& planner) {
  const Pass pass = planner.pass();
  const BatchMatMulExtents z =
      ExtentsOf(matmul, pass, planner.in_shape(0), planner.in_shape(1), planner.out_shape());
  const bool t = matmul.transposed;
  const float *first = planner.In(0), *second = planner.In(1);
  const Target target{planner.Out()};
  if (pass.is_forward()) {
    PlanProduct({second, t ? z.in : z.out, t}, {first, z.in, false},
                {z.out, z.rows, z.in, z.products}, target, planner);
  } else if (pass.gradient == 0) {  // da = dy * b^T
    PlanProduct({first, t ? z.in : z.out, !t}, {second, z.out, false},
                {z.in, z.rows, z.out, z.products}, target, planner);
  } else if (t) {  // db[out, in] = dy^T * a
    PlanProduct({first, z.in, false}, {second, z.out, true}, {z.in, z.out, z.rows, z.products},
                target, planner);
  } else {
    PlanProduct({second, z.out, false}, {first, z.in, true}, {z.out, z.in, z.rows, z.products},
                target, planner);
  }
}

}  // namespace partita
