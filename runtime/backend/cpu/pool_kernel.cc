// Pooling on pieces in either order: both sides are walked with strides, channels innermost, so
// that channels-last data run over contiguous vectors.
#include <limits>

#include "runtime/backend/cpu/cpu_kernels.h"
#include "runtime/backend/cpu/thread_team.h"

namespace partita {
namespace {

// Steps between neighbours along each dimension of a piece.
struct Strides {
  explicit Strides(const KernelTensor& t) {
    const Shape& s = t.type.shape;
    if (t.format == Format::kNative) {
      c = 1, w = s[1], h = s[3] * s[1], n = s[2] * s[3] * s[1];
    } else {
      w = 1, h = s[3], c = s[2] * s[3], n = s[1] * s[2] * s[3];
    }
  }
  int64_t n, c, h, w;
};

class PoolKernel : public HostKernel {
 public:
  PoolKernel(const Pool2d& pool, const KernelSignature& s)
      : pool_(pool),
        forward_(s.pass.is_forward()),
        is_max_(pool.function == "max"),
        x_type_(forward_ || is_max_ ? s.inputs[0] : s.outputs[0]),
        y_type_(forward_ ? s.outputs[0] : s.inputs.back()),
        x_(x_type_),
        y_(y_type_),
        dx_(forward_ ? x_type_ : s.outputs[0]) {}

  int64_t scratch_bytes() const override { return 0; }

  absl::Status Run(const KernelArguments& arguments, void*) const override {
    const int64_t samples = y_type_.type.shape[0];
    const auto* in = static_cast<const float*>(arguments.inputs[0].data);
    const auto* dy = static_cast<const float*>(arguments.inputs.back().data);
    auto* out = static_cast<float*>(arguments.outputs[0].data);
    const int64_t channels = y_type_.type.shape[1];
    const int64_t blocks = (channels + kBlock - 1) / kBlock;
    ParallelBlocks(samples * blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        const int64_t c = b % blocks * kBlock;
        RunBlock({b / blocks, c, std::min(kBlock, channels - c)}, in, dy, out);
      }
    });
    return absl::OkStatus();
  }

 private:
  static constexpr int64_t kBlock = 64;  // channels at a time

  // Channels of a sample: `count` from c on.
  struct Block {
    int64_t n, c, count;
  };

  // The window's positions inside the piece along one dimension.
  struct Taps {
    int64_t first, step, count;
    double divisor;  // positions that count in an average
  };
  struct Window {
    Taps rows, columns;
    bool empty() const { return rows.count == 0 || columns.count == 0; }
    double divisor() const { return rows.divisor * columns.divisor; }
  };

  Taps TapsOf(int d, int64_t i) const {
    const int64_t extent = x_type_.type.shape[static_cast<size_t>(d) + 2];
    const auto k = static_cast<size_t>(d);
    const int64_t start = i * pool_.stride[k] - pool_.pads[k];
    const int64_t step = pool_.dilation[k];
    Taps taps{0, step, 0, 0};
    for (int64_t a = 0; a < pool_.kernel[k]; ++a) {
      const int64_t at = start + a * step;
      if (at >= -pool_.counted[k] && at < extent + pool_.counted[k + 2]) taps.divisor += 1;
      if (at < 0 || at >= extent) continue;
      if (taps.count == 0) taps.first = at;
      ++taps.count;
    }
    return taps;
  }

  void RunBlock(const Block& block, const float* in, const float* dy, float* out) const {
    const auto [n, c, count] = block;
    if (!forward_) ClearBlock(block, out);
    Window window;
    for (int64_t i = 0; i < y_type_.type.shape[2]; ++i) {
      window.rows = TapsOf(0, i);
      for (int64_t j = 0; j < y_type_.type.shape[3]; ++j) {
        window.columns = TapsOf(1, j);
        const int64_t y_at = n * y_.n + c * y_.c + i * y_.h + j * y_.w;
        const int64_t x_at = n * x_.n + c * x_.c;
        if (forward_ && is_max_) {
          MaxOf(window, count, in + x_at, out + y_at);
        } else if (forward_) {
          AverageOf(window, count, in + x_at, out + y_at);
        } else if (is_max_) {
          ScatterMax(window, count, in + x_at, dy + y_at, out + n * dx_.n + c * dx_.c);
        } else {
          ScatterAverage(window, count, dy + y_at, out + n * dx_.n + c * dx_.c);
        }
      }
    }
  }

  void ClearBlock(const Block& block, float* dx) const {
    const auto [n, c, count] = block;
    for (int64_t h = 0; h < x_type_.type.shape[2]; ++h) {
      for (int64_t w = 0; w < x_type_.type.shape[3]; ++w) {
        float* at = dx + n * dx_.n + c * dx_.c + h * dx_.h + w * dx_.w;
        for (int64_t k = 0; k < count; ++k) at[k * dx_.c] = 0;
      }
    }
  }

  template <class Visit>
  static void ForEachTap(const Window& window, Visit&& visit) {
    const auto& [rows, columns] = window;
    for (int64_t a = 0; a < rows.count; ++a) {
      for (int64_t b = 0; b < columns.count; ++b) {
        visit(rows.first + a * rows.step, columns.first + b * columns.step);
      }
    }
  }

  void MaxOf(const Window& window, int64_t count, const float* x, float* y) const {
    if (window.empty()) {
      for (int64_t k = 0; k < count; ++k) y[k * y_.c] = 0;
      return;
    }
    float best[kBlock];
    std::fill_n(best, count, -std::numeric_limits<float>::infinity());
    ForEachTap(window, [&](int64_t h, int64_t w) {
      const float* at = x + h * x_.h + w * x_.w;
      if (x_.c == 1) {
        for (int64_t k = 0; k < count; ++k)
          best[k] = at[k] > best[k] || at[k] != at[k] ? at[k] : best[k];
      } else {
        for (int64_t k = 0; k < count; ++k) {
          const float v = at[k * x_.c];
          best[k] = v > best[k] || v != v ? v : best[k];
        }
      }
    });
    for (int64_t k = 0; k < count; ++k) y[k * y_.c] = best[k];
  }

  void AverageOf(const Window& window, int64_t count, const float* x, float* y) const {
    float sum[kBlock] = {};
    ForEachTap(window, [&](int64_t h, int64_t w) {
      const float* at = x + h * x_.h + w * x_.w;
      for (int64_t k = 0; k < count; ++k) sum[k] += at[k * x_.c];
    });
    const double positions = window.divisor();
    const auto share = static_cast<float>(positions > 0 ? 1 / positions : 0);
    for (int64_t k = 0; k < count; ++k) y[k * y_.c] = sum[k] * share;
  }

  // The gradient goes to the first of equal maxima in row-major order.
  void ScatterMax(const Window& window, int64_t count, const float* x, const float* dy,
                  float* dx) const {
    if (window.empty()) return;
    int32_t where[kBlock];
    if (x_.c == 1 && dx_.c == 1 && y_.c == 1) {
      FindMax<true>(window, count, x, where);
      // Selected tap by tap, which runs over vectors.
      int32_t tap = 0;
      ForEachTap(window, [&](int64_t h, int64_t w) {
        float* at = dx + h * dx_.h + w * dx_.w;
        for (int64_t k = 0; k < count; ++k) at[k] += where[k] == tap ? dy[k] : 0.f;
        ++tap;
      });
      return;
    }
    FindMax<false>(window, count, x, where);
    const auto& [rows, columns] = window;
    for (int64_t k = 0; k < count; ++k) {
      const int64_t h = rows.first + where[k] / columns.count * rows.step;
      const int64_t w = columns.first + where[k] % columns.count * columns.step;
      dx[h * dx_.h + w * dx_.w + k * dx_.c] += dy[k * y_.c];
    }
  }

  // For each channel the number of the tap that holds its maximum.
  template <bool kUnitStride>
  void FindMax(const Window& window, int64_t count, const float* x, int32_t* where) const {
    const int64_t stride = kUnitStride ? 1 : x_.c;
    float best[kBlock];
    std::fill_n(best, count, -std::numeric_limits<float>::infinity());
    std::fill_n(where, count, -1);
    int32_t tap = 0;
    ForEachTap(window, [&](int64_t h, int64_t w) {
      const float* at = x + h * x_.h + w * x_.w;
      for (int64_t k = 0; k < count; ++k) {
        const float v = at[k * stride];
        const bool better = (v > best[k]) | (where[k] < 0) | (v != v);
        best[k] = better ? v : best[k];
        where[k] = better ? tap : where[k];
      }
      ++tap;
    });
  }

  void ScatterAverage(const Window& window, int64_t count, const float* dy, float* dx) const {
    const double positions = window.divisor();
    if (positions == 0) return;
    const auto share = static_cast<float>(1 / positions);
    ForEachTap(window, [&](int64_t h, int64_t w) {
      float* at = dx + h * dx_.h + w * dx_.w;
      for (int64_t k = 0; k < count; ++k) at[k * dx_.c] += dy[k * y_.c] * share;
    });
  }

  const Pool2d pool_;
  const bool forward_, is_max_;
  const KernelTensor x_type_, y_type_;
  const Strides x_, y_, dx_;
};

}  // namespace

std::unique_ptr<HostKernel> MakePoolKernel(const Pool2d& pool, const KernelSignature& signature) {
  if (!IsPlainFloat(signature)) return nullptr;
  return std::make_unique<PoolKernel>(pool, signature);
}

}  // namespace partita
