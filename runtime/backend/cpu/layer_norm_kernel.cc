#include <cmath>
#include <vector>

#include "runtime/backend/cpu/cpu_kernels.h"
#include "runtime/backend/cpu/thread_team.h"

namespace partita {
namespace {

struct RowMoments {
  float mean, rstd;
};

RowMoments MomentsOf(const float* x, int64_t size, double epsilon) {
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < size; ++i) sum += static_cast<double>(x[i]);
  const double mean = sum / static_cast<double>(size);
  for (int64_t i = 0; i < size; ++i) {
    const double distance = static_cast<double>(x[i]) - mean;
    squares += distance * distance;
  }
  return {static_cast<float>(mean),
          static_cast<float>(1 / std::sqrt(squares / static_cast<double>(size) + epsilon))};
}

// Forward, or the gradient of x: rows on their own, shared by the threads.
class LayerNormRows : public HostKernel {
 public:
  LayerNormRows(const LayerNorm& norm, const KernelSignature& s)
      : epsilon_(norm.epsilon),
        forward_(s.pass.is_forward()),
        size_(s.outputs[0].type.shape.back()),
        rows_(Volume(s.outputs[0].type.shape) / size_) {}
  int64_t scratch_bytes() const override { return 0; }
  absl::Status Run(const KernelArguments& a, void*) const override {
    const auto in = [&](size_t k) { return static_cast<const float*>(a.inputs[k].data); };
    auto* out = static_cast<float*>(a.outputs[0].data);
    const int64_t grain = std::max<int64_t>(1, 8192 / size_);
    ParallelBlocks(rows_, grain, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin * size_; at < end * size_; at += size_) {
        if (forward_) {
          Normalize(in(0) + at, in(1), in(2), out + at);
        } else {
          Differentiate(in(0) + at, in(1), in(2) + at, out + at);
        }
      }
    });
    return absl::OkStatus();
  }

 private:
  void Normalize(const float* x, const float* gamma, const float* beta, float* y) const {
    const RowMoments row = MomentsOf(x, size_, epsilon_);
#pragma GCC ivdep
    for (int64_t i = 0; i < size_; ++i) y[i] = (x[i] - row.mean) * row.rstd * gamma[i] + beta[i];
  }
  void Differentiate(const float* x, const float* gamma, const float* dy, float* dx) const {
    const RowMoments row = MomentsOf(x, size_, epsilon_);
    double sum = 0, along = 0;
    for (int64_t i = 0; i < size_; ++i) {
      const float gradient = dy[i] * gamma[i];
      sum += static_cast<double>(gradient);
      along += static_cast<double>(gradient * ((x[i] - row.mean) * row.rstd));
    }
    const auto mean = static_cast<float>(sum / static_cast<double>(size_));
    const auto share = static_cast<float>(along / static_cast<double>(size_));
#pragma GCC ivdep
    for (int64_t i = 0; i < size_; ++i) {
      const float xhat = (x[i] - row.mean) * row.rstd;
      dx[i] = row.rstd * (dy[i] * gamma[i] - mean - xhat * share);
    }
  }

  const double epsilon_;
  const bool forward_;
  const int64_t size_, rows_;
};

// The gradient of gamma from x and dy, or of beta from dy: the threads share the columns.
class LayerNormColumns : public HostKernel {
 public:
  LayerNormColumns(const LayerNorm& norm, const KernelSignature& s)
      : epsilon_(norm.epsilon),
        of_gamma_(s.pass.gradient == 1),
        size_(s.outputs[0].type.shape[0]),
        rows_(Volume(s.inputs[0].type.shape) / size_) {}
  int64_t scratch_bytes() const override { return 0; }
  absl::Status Run(const KernelArguments& a, void*) const override {
    const auto* x = static_cast<const float*>(a.inputs[0].data);
    const auto* dy = static_cast<const float*>(a.inputs[of_gamma_ ? 1 : 0].data);
    auto* out = static_cast<float*>(a.outputs[0].data);
    std::vector<RowMoments> moments(static_cast<size_t>(rows_), RowMoments{0, 1});
    if (of_gamma_) {
      ParallelBlocks(rows_, std::max<int64_t>(1, 8192 / size_), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          moments[static_cast<size_t>(r)] = MomentsOf(x + r * size_, size_, epsilon_);
        }
      });
    }
    ParallelBlocks(size_, 64, [&](int64_t begin, int64_t end) {
      std::vector<double> sums(static_cast<size_t>(end - begin), 0.0);
      for (int64_t r = 0; r < rows_; ++r) {
        const RowMoments row = moments[static_cast<size_t>(r)];
        const float *from = x + r * size_ + begin, *gradient = dy + r * size_ + begin;
        for (size_t i = 0; i < sums.size(); ++i) {
          const float xhat = of_gamma_ ? (from[i] - row.mean) * row.rstd : 1.f;
          sums[i] += static_cast<double>(gradient[i] * xhat);
        }
      }
      for (size_t i = 0; i < sums.size(); ++i) {
        out[begin + static_cast<int64_t>(i)] = static_cast<float>(sums[i]);
      }
    });
    return absl::OkStatus();
  }

 private:
  const double epsilon_;
  const bool of_gamma_;
  const int64_t size_, rows_;
};

}  // namespace

std::unique_ptr<HostKernel> MakeLayerNormKernel(const LayerNorm& norm, const KernelSignature& s) {
  if (!IsPlainFloat(s)) return nullptr;
  if (s.pass.gradient > 0) return std::make_unique<LayerNormColumns>(norm, s);
  return std::make_unique<LayerNormRows>(norm, s);
}

}  // namespace partita
