// Batch normalisation's four kernels on pieces [n, c, inner...] in either order. Sums are kept in
// double.
#include <cmath>

#include "runtime/backend/cpu/cpu_kernels.h"
#include "runtime/backend/cpu/thread_team.h"

namespace partita {
namespace {

// A channel-wise operand seen as [samples][channels][positions] with strides.
struct Layout {
  explicit Layout(const KernelTensor& t) {
    const Shape& s = t.type.shape;
    samples = s[0], channels = s[1], positions = 1;
    for (size_t d = 2; d < s.size(); ++d) positions *= s[d];
    const bool native = t.format == Format::kNative && s.size() == 4;
    channel_stride = native ? 1 : positions;
    position_stride = native ? channels : 1;
  }
  // Calls visit(channel - begin, offset) for every element of channels [begin, end), in memory
  // order.
  template <class Visit>
  void ForEach(int64_t begin, int64_t end, Visit&& visit) const {
    for (int64_t n = 0; n < samples; ++n) {
      const int64_t base = n * channels * positions;
      if (channel_stride == 1) {
        for (int64_t p = 0; p < positions; ++p) {
          const int64_t row = base + p * position_stride;
          for (int64_t c = begin; c < end; ++c) visit(c - begin, row + c);
        }
      } else {
        for (int64_t c = begin; c < end; ++c) {
          const int64_t row = base + c * channel_stride;
          for (int64_t p = 0; p < positions; ++p) visit(c - begin, row + p);
        }
      }
    }
  }
  int64_t samples, channels, positions, channel_stride, position_stride;
};

struct Statistics {
  std::vector<float> mean, rstd;
};

// Of channels [begin, end), from the double sums s1, s2.
Statistics StatisticsOf(const BatchNormFields& norm, const void* s1, const void* s2, int64_t begin,
                        int64_t end) {
  const auto* sum = static_cast<const double*>(s1);
  const auto* squares = static_cast<const double*>(s2);
  Statistics all;
  for (int64_t c = begin; c < end; ++c) {
    const double mean = sum[c] / static_cast<double>(norm.count);
    const double variance =
        std::max(squares[c] / static_cast<double>(norm.count) - mean * mean, 0.0);  // keeps NaN
    all.mean.push_back(static_cast<float>(mean));
    all.rstd.push_back(static_cast<float>(1 / std::sqrt(variance + norm.epsilon)));
  }
  return all;
}

// Runs a body over blocks of channels.
template <class Body>
class ChannelKernel : public HostKernel {
 public:
  ChannelKernel(const KernelTensor& x, Body body) : layout_(x), body_(std::move(body)) {}
  int64_t scratch_bytes() const override { return 0; }
  absl::Status Run(const KernelArguments& a, void*) const override {
    ParallelBlocks(layout_.channels, 16, [&](int64_t begin, int64_t end) {
      // Blocks of at most 64 channels keep their sums in cache.
      for (int64_t c = begin; c < end; c += 64) body_(layout_, a, c, std::min(end, c + 64));
    });
    return absl::OkStatus();
  }

 private:
  Layout layout_;
  Body body_;
};

template <class Body>
std::unique_ptr<HostKernel> PerChannel(const KernelTensor& x, Body body) {
  return std::make_unique<ChannelKernel<Body>>(x, std::move(body));
}

const float* In(const KernelArguments& a, size_t k) {
  return static_cast<const float*>(a.inputs[k].data);
}

// float32 data of one order, and sums in double.
bool Fits(const KernelSignature& s, std::initializer_list<size_t> data_inputs) {
  for (size_t k : data_inputs) {
    const KernelTensor& t = s.inputs[k];
    if (t.type.dtype != DType::kFloat32 || Volume(t.type.shape) == 0) return false;
    if (t.format != s.inputs[0].format || t.type.shape != s.inputs[0].type.shape) return false;
  }
  const KernelTensor& y = s.outputs[0];
  return y.type.shape != s.inputs[0].type.shape || y.format == s.inputs[0].format;
}

}  // namespace

std::unique_ptr<HostKernel> MakeBatchMomentsKernel(const BatchMoments&, const KernelSignature& s) {
  if (!Fits(s, {0})) return nullptr;
  return PerChannel(s.inputs[0],
                    [](const Layout& l, const KernelArguments& a, int64_t begin, int64_t end) {
                      const float* x = In(a, 0);
                      double sum[64] = {}, squares[64] = {};
                      l.ForEach(begin, end, [&](int64_t c, int64_t i) {
                        const double v = x[i];
                        sum[c] += v;
                        squares[c] += v * v;
                      });
                      for (int64_t c = begin; c < end; ++c) {
                        static_cast<double*>(a.outputs[0].data)[c] = sum[c - begin];
                        static_cast<double*>(a.outputs[1].data)[c] = squares[c - begin];
                      }
                    });
}

std::unique_ptr<HostKernel> MakeBatchNormalizeKernel(const BatchNormalize& norm,
                                                     const KernelSignature& s) {
  if (!Fits(s, {0}) || s.fused_relu) return nullptr;
  return PerChannel(
      s.inputs[0], [norm](const Layout& l, const KernelArguments& a, int64_t begin, int64_t end) {
        const Statistics t = StatisticsOf(norm, a.inputs[1].data, a.inputs[2].data, begin, end);
        const float* x = In(a, 0);
        const float* gamma = In(a, 3) + begin;
        const float* beta = In(a, 4) + begin;
        auto* y = static_cast<float*>(a.outputs[0].data);
        float scale[64];
        for (int64_t c = 0; c < end - begin; ++c)
          scale[c] = t.rstd[static_cast<size_t>(c)] * gamma[c];
        l.ForEach(begin, end, [&](int64_t c, int64_t i) {
          y[i] = (x[i] - t.mean[static_cast<size_t>(c)]) * scale[c] + beta[c];
        });
      });
}

std::unique_ptr<HostKernel> MakeBatchNormGradMomentsKernel(const BatchNormGradMoments& norm,
                                                           const KernelSignature& s) {
  if (!Fits(s, {0, 3})) return nullptr;
  return PerChannel(
      s.inputs[0], [norm](const Layout& l, const KernelArguments& a, int64_t begin, int64_t end) {
        const Statistics t = StatisticsOf(norm, a.inputs[1].data, a.inputs[2].data, begin, end);
        const float* x = In(a, 0);
        const float* dy = In(a, 3);
        double t1[64] = {}, t2[64] = {};
        l.ForEach(begin, end, [&](int64_t c, int64_t i) {
          t1[c] += dy[i];
          t2[c] += static_cast<double>(dy[i]) * (x[i] - t.mean[static_cast<size_t>(c)]);
        });
        for (int64_t c = begin; c < end; ++c) {
          static_cast<float*>(a.outputs[0].data)[c] =
              static_cast<float>(t2[c - begin] * t.rstd[static_cast<size_t>(c - begin)]);
          static_cast<float*>(a.outputs[1].data)[c] = static_cast<float>(t1[c - begin]);
        }
      });
}

std::unique_ptr<HostKernel> MakeBatchNormGradApplyKernel(const BatchNormGradApply& norm,
                                                         const KernelSignature& s) {
  if (!Fits(s, {0, 4})) return nullptr;
  return PerChannel(s.inputs[0], [norm](const Layout& l, const KernelArguments& a, int64_t begin,
                                        int64_t end) {
    const Statistics t = StatisticsOf(norm, a.inputs[1].data, a.inputs[2].data, begin, end);
    const float* x = In(a, 0);
    const float* gamma = In(a, 3) + begin;
    const float* dy = In(a, 4);
    const float* t1 = In(a, 5) + begin;
    const float* t2 = In(a, 6) + begin;
    auto* dx = static_cast<float*>(a.outputs[0].data);
    const auto one_over_n = static_cast<float>(1.0 / static_cast<double>(norm.count));
    float scale[64], shift[64], slope[64];
    for (int64_t c = 0; c < end - begin; ++c) {
      const float rstd = t.rstd[static_cast<size_t>(c)];
      scale[c] = gamma[c] * rstd;
      shift[c] = t1[c] * one_over_n;
      slope[c] = t2[c] * one_over_n * rstd;
    }
    l.ForEach(begin, end, [&](int64_t c, int64_t i) {
      dx[i] = scale[c] * (dy[i] - shift[c] - (x[i] - t.mean[static_cast<size_t>(c)]) * slope[c]);
    });
  });
}

}  // namespace partita
