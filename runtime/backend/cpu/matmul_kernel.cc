#include <algorithm>
#include <atomic>

#include "runtime/backend/cpu/cpu_kernels.h"
#include "runtime/backend/cpu/dnnl_kernel.h"
#include "runtime/backend/cpu/thread_team.h"

namespace partita {
namespace {

using dnnl_compat::Desc;

// A row-major matrix [rows, columns], or its transpose seen as [columns, rows].
Desc Matrix(int64_t rows, int64_t columns, bool transpose = false) {
  const auto type = dnnl::memory::data_type::f32;
  if (transpose) return Desc({columns, rows}, type, dnnl::memory::dims{1, columns});
  return Desc({rows, columns}, type, dnnl::memory::dims{columns, 1});
}

// The same for several matrices, one after another.
Desc Matrices(int64_t count, int64_t rows, int64_t columns, bool transpose = false) {
  const auto type = dnnl::memory::data_type::f32;
  const int64_t size = rows * columns;
  if (transpose) return Desc({count, columns, rows}, type, dnnl::memory::dims{size, 1, columns});
  return Desc({count, rows, columns}, type, dnnl::memory::dims{size, columns, 1});
}

struct MatrixSizes {
  int64_t rows = 1, in = 1, out = 1;
};

MatrixSizes SizesOf(const MatMul& matmul, const KernelSignature& s) {
  MatrixSizes sizes;
  const Shape& w = s.pass.gradient == 1   ? s.outputs[0].type.shape
                   : s.pass.gradient == 0 ? s.inputs[0].type.shape
                                          : s.inputs[1].type.shape;
  sizes.in = matmul.transposed ? w[1] : w[0];
  sizes.out = matmul.transposed ? w[0] : w[1];
  const Shape& y = s.pass.is_forward() ? s.outputs[0].type.shape : s.inputs[1].type.shape;
  sizes.rows = Volume(y) / sizes.out;
  return sizes;
}

// The products of the backward pass through oneDNN's BLAS call, which reads the weights where they
// lie; the matmul primitive packs them first, which takes longer than the product where there are
// few rows.
class BlasProduct : public HostKernel {
 public:
  struct Extents {
    int64_t m, n, k;
  };
  // c[m, n] = a * b, or a^T * b with a [k, m]; inputs a_at and b_at of the kernel.
  BlasProduct(bool transpose_a, const Extents& extents, size_t a_at, size_t b_at)
      : transpose_a_(transpose_a),
        m_(extents.m),
        n_(extents.n),
        k_(extents.k),
        a_at_(a_at),
        b_at_(b_at) {}
  int64_t scratch_bytes() const override { return 0; }

  absl::Status Run(const KernelArguments& arguments, void*) const override {
    const auto* a = static_cast<const float*>(arguments.inputs[a_at_].data);
    const auto* b = static_cast<const float*>(arguments.inputs[b_at_].data);
    auto* c = static_cast<float*>(arguments.outputs[0].data);
    std::atomic<bool> good{true};
    // The threads share what is large: the rows of dw, or the columns of dx.
    if (transpose_a_) {
      ParallelBlocks(m_, 16, [&](int64_t begin, int64_t end) {
        if (!Multiply(a + begin, b, c + begin * n_, end - begin, n_)) good = false;
      });
    } else {
      ParallelBlocks(n_, 64, [&](int64_t begin, int64_t end) {
        if (!Multiply(a, b + begin, c + begin, m_, end - begin)) good = false;
      });
    }
    return good ? absl::OkStatus() : absl::InternalError("oneDNN: sgemm failed");
  }

 private:
  // Rows of b that are walked at a time where they are long: as much as stays in the cache.
  static constexpr int64_t kInner = 64;

  bool Multiply(const float* a, const float* b, float* c, int64_t m, int64_t n) const {
    if (transpose_a_) {
      return dnnl_sgemm('T', 'N', m, n, k_, 1.f, a, m_, b, n_, 0.f, c, n_) == dnnl_success;
    }
    for (int64_t k = 0; k < k_; k += kInner) {
      const int64_t inner = std::min(kInner, k_ - k);
      if (dnnl_sgemm('N', 'N', m, n, inner, 1.f, a + k, k_, b + k * n_, n_, k > 0 ? 1.f : 0.f, c,
                     n_) != dnnl_success) {
        return false;
      }
    }
    return true;
  }

  const bool transpose_a_;
  const int64_t m_, n_, k_;
  const size_t a_at_, b_at_;
};

// A matrix among a kernel's inputs.
struct Factor {
  Desc desc;
  size_t input;
};

std::unique_ptr<HostKernel> Product(const Factor& a, const Factor& b, const Desc* bias,
                                    const Desc& c, const KernelSignature& s) {
  const auto pd = dnnl_compat::MatMul(CpuEngine(), {a.desc, b.desc, c, bias}, UserScratchpad());
  std::vector<DnnlArgument> arguments = {
      {DNNL_ARG_SRC, false, a.input, a.desc, pd.src_desc()},
      {DNNL_ARG_WEIGHTS, false, b.input, b.desc, pd.weights_desc()},
      {DNNL_ARG_DST, true, 0, c, pd.dst_desc()}};
  if (bias != nullptr) arguments.push_back({DNNL_ARG_BIAS, false, 2, *bias, *bias});
  return std::make_unique<DnnlKernel>(
      s, DnnlKernel::Primitive{dnnl::matmul(pd), pd.scratchpad_desc()}, std::move(arguments));
}

std::unique_ptr<HostKernel> MakeProduct(const MatMul& matmul, const KernelSignature& s) {
  const MatrixSizes z = SizesOf(matmul, s);
  const bool t = matmul.transposed;
  if (s.pass.gradient == 0) {  // dx[rows, in] = dy[rows, out] * w, w seen as [out, in]
    using Extents = BlasProduct::Extents;
    if (t) return std::make_unique<BlasProduct>(false, Extents{z.rows, z.in, z.out}, 1, 0);
    return Product({Matrix(z.rows, z.out), 1}, {Matrix(z.in, z.out, true), 0}, nullptr,
                   Matrix(z.rows, z.in), s);
  }
  if (s.pass.gradient == 1) {  // dw[out, in] = dy^T * x, or its transpose
    using Extents = BlasProduct::Extents;
    return t ? std::make_unique<BlasProduct>(true, Extents{z.out, z.in, z.rows}, 1, 0)
             : std::make_unique<BlasProduct>(true, Extents{z.in, z.out, z.rows}, 0, 1);
  }
  const bool with_bias = s.inputs.size() == 3 && s.inputs[2].present;
  const Desc bias = Matrix(1, z.out);
  return Product({Matrix(z.rows, z.in), 0},
                 {t ? Matrix(z.out, z.in, true) : Matrix(z.in, z.out), 1},
                 with_bias ? &bias : nullptr, Matrix(z.rows, z.out), s);
}

std::unique_ptr<HostKernel> MakeProducts(const BatchMatMul& matmul, const KernelSignature& s) {
  const BatchMatMulExtents z = ExtentsOf(matmul, s.pass, s.inputs[0].type.shape,
                                         s.inputs[1].type.shape, s.outputs[0].type.shape);
  const int64_t count = z.products;
  const bool t = matmul.transposed;
  const Desc a = Matrices(count, z.rows, z.in), y = Matrices(count, z.rows, z.out);
  if (s.pass.is_forward()) {
    const Desc b = t ? Matrices(count, z.out, z.in, true) : Matrices(count, z.in, z.out);
    return Product({a, 0}, {b, 1}, nullptr, y, s);
  }
  if (s.pass.gradient == 0) {  // da = dy * b^T
    const Desc b = t ? Matrices(count, z.out, z.in) : Matrices(count, z.in, z.out, true);
    return Product({y, 1}, {b, 0}, nullptr, a, s);
  }
  // db = a^T * dy, or its transpose
  if (t) {
    return Product({Matrices(count, z.rows, z.out, true), 1}, {a, 0}, nullptr,
                   Matrices(count, z.out, z.in), s);
  }
  return Product({Matrices(count, z.rows, z.in, true), 0}, {y, 1}, nullptr,
                 Matrices(count, z.in, z.out), s);
}

// db[o] = sum of dy over rows.
class BiasGradient : public HostKernel {
 public:
  BiasGradient(int64_t rows, int64_t columns) : rows_(rows), columns_(columns) {}
  int64_t scratch_bytes() const override { return 0; }
  absl::Status Run(const KernelArguments& arguments, void*) const override {
    const auto* dy = static_cast<const float*>(arguments.inputs[0].data);
    auto* db = static_cast<float*>(arguments.outputs[0].data);
    ParallelBlocks(columns_, 1024, [&](int64_t begin, int64_t end) {
      std::vector<double> sums(static_cast<size_t>(end - begin), 0.0);
      for (int64_t r = 0; r < rows_; ++r) {
        const float* row = dy + r * columns_ + begin;
        for (size_t o = 0; o < sums.size(); ++o) sums[o] += row[o];
      }
      for (size_t o = 0; o < sums.size(); ++o)
        db[begin + static_cast<int64_t>(o)] = static_cast<float>(sums[o]);
    });
    return absl::OkStatus();
  }

 private:
  int64_t rows_, columns_;
};

}  // namespace

std::unique_ptr<HostKernel> MakeMatMulKernel(const MatMul& matmul,
                                             const KernelSignature& signature) {
  if (!IsPlainFloat(signature)) return nullptr;
  if (signature.pass.gradient == 2) {
    const Shape& dy = signature.inputs[0].type.shape;
    return std::make_unique<BiasGradient>(Volume(dy) / dy.back(), dy.back());
  }
  try {
    return MakeProduct(matmul, signature);
  } catch (const dnnl::error&) {
    return nullptr;
  }
}

std::unique_ptr<HostKernel> MakeBatchMatMulKernel(const BatchMatMul& matmul,
                                                  const KernelSignature& signature) {
  if (!IsPlainFloat(signature)) return nullptr;
  try {
    return MakeProducts(matmul, signature);
  } catch (const dnnl::error&) {
    return nullptr;
  }
}

}  // namespace partita
