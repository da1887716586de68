#include "runtime/backend/cpu/fused_update.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "graph/support/status_macros.h"
#include "runtime/backend/cpu/cpu_kernels.h"
#include "runtime/backend/cpu/sgd_rates.h"
#include "runtime/backend/cpu/thread_team.h"

namespace partita {
namespace {

// Tile of sums that fits in the registers beside a row of factors: of 32 with AVX-512 and NEON, of 16
// otherwise.
#if defined(__AVX512F__)
constexpr int kLanes = 16, kTileRows = 8, kTileVectors = 3;
#elif defined(__AVX__)
constexpr int kLanes = 8, kTileRows = 6, kTileVectors = 2;
#elif defined(__aarch64__)
constexpr int kLanes = 4, kTileRows = 8, kTileVectors = 3;
#else
constexpr int kLanes = 4, kTileRows = 6, kTileVectors = 2;
#endif
constexpr int kTileColumns = kLanes * kTileVectors;
// Up to here the packed columns stay in the second-level cache.
constexpr int64_t kMostRows = 64;

using Vector [[gnu::vector_size(kLanes * sizeof(float)), gnu::aligned(4), gnu::may_alias]] = float;

Vector Load(const float* from) { return *reinterpret_cast<const Vector*>(from); }
void Store(float* to, const Vector& value) { *reinterpret_cast<Vector*>(to) = value; }

int64_t RoundedUp(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

// w and v, and where their next values go: dw's shape, row-major.
struct Weights {
  const float *w, *v;
  float *w_next, *v_next;
  int64_t columns;
  Weights At(int64_t row, int64_t column) const {
    const int64_t at = row * columns + column;
    return {w + at, v + at, w_next + at, v_next + at, columns};
  }
};

// The sum over `rows` of a[row][i] * b[row][j], packed one row after the other.
struct Tile {
  Vector sums[kTileRows][kTileVectors] = {};

  void Multiply(const float* a, const float* b, int64_t rows, const Weights& soon) {
    for (int64_t r = 0; r < rows; ++r, a += kTileRows, b += kTileColumns) {
      Vector x[kTileVectors];
#pragma GCC unroll 8
      for (int c = 0; c < kTileVectors; ++c) x[c] = Load(b + c * kLanes);
#pragma GCC unroll 8
      for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 8
        for (int c = 0; c < kTileVectors; ++c) sums[i][c] += x[c] * a[i];
      }
      if (r >= kTileRows) continue;
      for (int c = 0; c < kTileVectors; ++c) {
        __builtin_prefetch(soon.w + r * soon.columns + c * kLanes);
        __builtin_prefetch(soon.v + r * soon.columns + c * kLanes);
      }
    }
  }

  void UpdateAll(const SgdRates& rates, const Weights& to) const {
#pragma GCC unroll 8
    for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 8
      for (int c = 0; c < kTileVectors; ++c) {
        const int64_t at = i * to.columns + c * kLanes;
        Vector w_next, v_next;
        rates.Step(sums[i][c], Load(to.w + at), Load(to.v + at), w_next, v_next);
        Store(to.w_next + at, w_next);
        Store(to.v_next + at, v_next);
      }
    }
  }

  // At the edges: the first `rows` and `columns` of the tile.
  void UpdateSome(const SgdRates& rates, const Weights& to, int64_t rows, int64_t columns) const {
    float all[kTileRows][kTileColumns];
    std::memcpy(all, sums, sizeof(all));
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        const int64_t at = i * to.columns + j;
        rates.Step(all[i][j], to.w[at], to.v[at], to.w_next[at], to.v_next[at]);
      }
    }
  }
};

// dw[m, n] = a^T * b with a [k, m] and b [k, n], straight into the update.
class FusedSgdProduct : public HostKernel {
 public:
  struct Sizes {
    int64_t m, n, k;
    size_t a_at, b_at;
  };
  FusedSgdProduct(Sizes sizes, bool nesterov) : s_(sizes), nesterov_(nesterov) {}

  int64_t scratch_bytes() const override {
    return (RoundedUp(s_.m, kTileRows) + RoundedUp(s_.n, kTileColumns)) * s_.k *
           static_cast<int64_t>(sizeof(float));
  }

  absl::Status Run(const KernelArguments& arguments, void* scratch) const override {
    const auto input = [&](size_t k) {
      return static_cast<const float*>(arguments.inputs[k].data);
    };
    const auto output = [&](size_t k) { return static_cast<float*>(arguments.outputs[k].data); };
    auto* a = static_cast<float*>(scratch);
    float* b = a + RoundedUp(s_.m, kTileRows) * s_.k;
    Pack<kTileRows>(input(s_.a_at), s_.m, a);
    Pack<kTileColumns>(input(s_.b_at), s_.n, b);
    const SgdRates rates(arguments.step, nesterov_);
    const Weights weights{input(2), input(3), output(0), output(1), s_.n};
    ParallelBlocks((s_.m + kTileRows - 1) / kTileRows, 1, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) UpdateRows(t * kTileRows, a, b, rates, weights);
    });
    return absl::OkStatus();
  }

 private:
  // [k, length] to [length / kWidth][k][kWidth], filled up with zeros.
  template <int kWidth>
  void Pack(const float* from, int64_t length, float* to) const {
    ParallelBlocks((length + kWidth - 1) / kWidth, 16, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const int64_t count = std::min<int64_t>(kWidth, length - p * kWidth);
        for (int64_t r = 0; r < s_.k; ++r) {
          float* row = to + (p * s_.k + r) * kWidth;
          std::copy_n(from + r * length + p * kWidth, count, row);
          std::fill(row + count, row + kWidth, 0.f);
        }
      }
    });
  }

  void UpdateRows(int64_t row, const float* a, const float* b, const SgdRates& rates,
                  const Weights& weights) const {
    const int64_t rows = std::min<int64_t>(kTileRows, s_.m - row);
    for (int64_t column = 0; column < s_.n; column += kTileColumns) {
      const int64_t columns = std::min<int64_t>(kTileColumns, s_.n - column);
      const Weights to = weights.At(row, column);
      Tile tile;
      tile.Multiply(a + row * s_.k, b + column * s_.k, s_.k, to);
      if (rows == kTileRows && columns == kTileColumns) {
        tile.UpdateAll(rates, to);
      } else {
        tile.UpdateSome(rates, to, rows, columns);
      }
    }
  }

  const Sizes s_;
  const bool nesterov_;
};

}  // namespace

std::unique_ptr<HostKernel> MakeFusedSgdProduct(const KernelSignature& s) {
  if (s.fusion.rest.size() != 1 || !EndsInUpdate(s)) return nullptr;
  const auto* matmul = std::get_if<MatMul>(&s.attrs);
  const auto* sgd = std::get_if<Sgd>(&s.fusion.rest[0].attrs);
  if (matmul == nullptr || sgd == nullptr || !IsPlainFloat(s)) return nullptr;
  const Shape& w = s.outputs[0].type.shape;
  const int64_t rows = Volume(s.inputs[0].type.shape) / s.inputs[0].type.shape.back();
  if (rows > kMostRows) return nullptr;
  const size_t a_at = matmul->transposed ? 1 : 0;  // inputs: x, dy
  return std::make_unique<FusedSgdProduct>(FusedSgdProduct::Sizes{w[0], w[1], rows, a_at, 1 - a_at},
                                           sgd->nesterov);
}

}  // namespace partita
