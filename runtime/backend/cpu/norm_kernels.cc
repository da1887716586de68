// Batch normalisation's four operators, alone and fused, on pieces [n, c, inner...] in either
// order. Sums are kept in double.
#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <span>

#include "runtime/backend/cpu/cpu_kernels.h"
#include "runtime/backend/cpu/thread_team.h"
#include "runtime/backend/kernel_stages.h"

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

// Does an operator for channels [begin, end), 64 of them at most, which keep their sums in cache.
using ChannelBody =
    std::function<void(const Layout&, const KernelArguments&, int64_t begin, int64_t end)>;
constexpr int64_t kMostChannels = 64;
// Channels of one cache line in native order.
constexpr int64_t kLineChannels = 16;

// Runs one or more operators over blocks of `width` channels: all of them on a block before the
// next; each of them on 64 channels at a time.
class ChannelKernel : public HostKernel {
 public:
  struct Stage {
    KernelStage kernel;
    ChannelBody body;
  };
  ChannelKernel(const KernelTensor& x, int64_t width, std::vector<Stage> stages)
      : layout_(x), width_(width), stages_(std::move(stages)) {}
  int64_t scratch_bytes() const override { return 0; }
  absl::Status Run(const KernelArguments& given, void*) const override {
    std::deque<StageArguments> arguments;
    for (const Stage& stage : stages_) arguments.emplace_back(stage.kernel, given, NoInner());
    ParallelBlocks(layout_.channels, kLineChannels, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; c += width_) {
        const int64_t block_end = std::min(end, c + width_);
        for (size_t s = 0; s < stages_.size(); ++s) {
          for (int64_t b = c; b < block_end; b += kMostChannels) {
            stages_[s].body(layout_, arguments[s].get(), b, std::min(block_end, b + kMostChannels));
          }
        }
      }
    });
    return absl::OkStatus();
  }

 private:
  static std::span<void* const> NoInner() { return {}; }

  const Layout layout_;
  const int64_t width_;
  const std::vector<Stage> stages_;
};

std::unique_ptr<HostKernel> PerChannel(const KernelSignature& s, ChannelBody body) {
  std::vector<ChannelKernel::Stage> stages = {{StagesOf(s)[0], std::move(body)}};
  return std::make_unique<ChannelKernel>(s.inputs[0], kMostChannels, std::move(stages));
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

ChannelBody BodyOf(const BatchMoments&, bool) {
  return [](const Layout& l, const KernelArguments& a, int64_t begin, int64_t end) {
    const float* x = In(a, 0);
    double sum[kMostChannels] = {}, squares[kMostChannels] = {};
    l.ForEach(begin, end, [&](int64_t c, int64_t i) {
      const double v = x[i];
      sum[c] += v;
      squares[c] += v * v;
    });
    for (int64_t c = begin; c < end; ++c) {
      static_cast<double*>(a.outputs[0].data)[c] = sum[c - begin];
      static_cast<double*>(a.outputs[1].data)[c] = squares[c - begin];
    }
  };
}

// With a ReLU, which keeps NaN, where `relu`.
ChannelBody BodyOf(const BatchNormalize& norm, bool relu) {
  return [norm, relu](const Layout& l, const KernelArguments& a, int64_t begin, int64_t end) {
    const Statistics t = StatisticsOf(norm, a.inputs[1].data, a.inputs[2].data, begin, end);
    const float* x = In(a, 0);
    const float* mean = t.mean.data();
    const float* beta = In(a, 4) + begin;
    auto* y = static_cast<float*>(a.outputs[0].data);
    float scale[kMostChannels];
    for (int64_t c = 0; c < end - begin; ++c) {
      scale[c] = t.rstd[static_cast<size_t>(c)] * In(a, 3)[begin + c];
    }
    if (relu) {
      l.ForEach(begin, end, [&](int64_t c, int64_t i) {
        const float v = (x[i] - mean[c]) * scale[c] + beta[c];
        y[i] = v < 0 ? 0 : v;
      });
    } else {
      l.ForEach(begin, end,
                [&](int64_t c, int64_t i) { y[i] = (x[i] - mean[c]) * scale[c] + beta[c]; });
    }
  };
}

ChannelBody BodyOf(const BatchNormGradMoments& norm, bool) {
  return [norm](const Layout& l, const KernelArguments& a, int64_t begin, int64_t end) {
    const Statistics t = StatisticsOf(norm, a.inputs[1].data, a.inputs[2].data, begin, end);
    const float* x = In(a, 0);
    const float* dy = In(a, 3);
    const float* mean = t.mean.data();
    double t1[kMostChannels] = {}, t2[kMostChannels] = {};
    l.ForEach(begin, end, [&](int64_t c, int64_t i) {
      t1[c] += dy[i];
      t2[c] += static_cast<double>(dy[i]) * (x[i] - mean[c]);
    });
    for (int64_t c = begin; c < end; ++c) {
      static_cast<float*>(a.outputs[0].data)[c] =
          static_cast<float>(t2[c - begin] * t.rstd[static_cast<size_t>(c - begin)]);
      static_cast<float*>(a.outputs[1].data)[c] = static_cast<float>(t1[c - begin]);
    }
  };
}

ChannelBody BodyOf(const BatchNormGradApply& norm, bool) {
  return [norm](const Layout& l, const KernelArguments& a, int64_t begin, int64_t end) {
    const Statistics t = StatisticsOf(norm, a.inputs[1].data, a.inputs[2].data, begin, end);
    const float* x = In(a, 0);
    const float* dy = In(a, 4);
    const float* mean = t.mean.data();
    auto* dx = static_cast<float*>(a.outputs[0].data);
    const auto one_over_n = static_cast<float>(1.0 / static_cast<double>(norm.count));
    float scale[kMostChannels], shift[kMostChannels], slope[kMostChannels];
    for (int64_t c = 0; c < end - begin; ++c) {
      const float rstd = t.rstd[static_cast<size_t>(c)];
      scale[c] = In(a, 3)[begin + c] * rstd;
      shift[c] = In(a, 5)[begin + c] * one_over_n;
      slope[c] = In(a, 6)[begin + c] * one_over_n * rstd;
    }
    l.ForEach(begin, end, [&](int64_t c, int64_t i) {
      dx[i] = scale[c] * (dy[i] - shift[c] - (x[i] - mean[c]) * slope[c]);
    });
  };
}

template <class Row>
ChannelBody BodyOf(const Row&, bool) {
  return nullptr;
}

// Channels of a block, so that their pieces of `tensors` large tensors stay in the second-level
// cache. In native order the channels of a position are neighbours: fewer than 64 would cut its
// runs short. Where so many do not fit, nothing is gained by blocks: all channels at once, as if
// the operators ran one after the other.
int64_t ChannelsOfBlock(const KernelTensor& x, int64_t tensors) {
  constexpr int64_t kCacheBytes = 512 << 10;
  const int64_t channels = std::max<int64_t>(1, x.type.shape[1]);
  const int64_t fit = kCacheBytes * channels / (tensors * x.type.bytes());
  if (x.format == Format::kNative) return fit >= kMostChannels ? kMostChannels : channels;
  return std::clamp<int64_t>(fit, 1, kMostChannels);
}

}  // namespace

std::unique_ptr<HostKernel> MakeBatchMomentsKernel(const BatchMoments& row,
                                                   const KernelSignature& s) {
  return Fits(s, {0}) ? PerChannel(s, BodyOf(row, false)) : nullptr;
}

std::unique_ptr<HostKernel> MakeBatchNormalizeKernel(const BatchNormalize& row,
                                                     const KernelSignature& s) {
  return Fits(s, {0}) ? PerChannel(s, BodyOf(row, HasOnlyEpilogue(s))) : nullptr;
}

std::unique_ptr<HostKernel> MakeBatchNormGradMomentsKernel(const BatchNormGradMoments& row,
                                                           const KernelSignature& s) {
  return Fits(s, {0, 3}) ? PerChannel(s, BodyOf(row, false)) : nullptr;
}

std::unique_ptr<HostKernel> MakeBatchNormGradApplyKernel(const BatchNormGradApply& row,
                                                         const KernelSignature& s) {
  return Fits(s, {0, 4}) ? PerChannel(s, BodyOf(row, false)) : nullptr;
}

std::unique_ptr<HostKernel> MakeFusedBatchNormKernel(const KernelSignature& s) {
  std::vector<KernelStage> kernels = StagesOf(s);
  const bool relu = std::holds_alternative<Relu>(kernels.back().kernel.attrs);
  if (relu) kernels.pop_back();
  const bool forward = std::holds_alternative<BatchMoments>(s.attrs);
  if (kernels.size() != 2 || !(forward || std::holds_alternative<BatchNormGradMoments>(s.attrs)) ||
      !(forward ? Fits(s, {0}) : Fits(s, {0, 3}))) {
    return nullptr;
  }
  std::vector<ChannelKernel::Stage> stages;
  for (const KernelStage& kernel : kernels) {
    ChannelBody body =
        std::visit([&](const auto& row) { return BodyOf(row, relu); }, kernel.kernel.attrs);
    const KernelTensor& y = kernel.kernel.outputs[0];
    const bool is_large = y.type.shape == s.inputs[0].type.shape;
    if (body == nullptr || (is_large && y.format != s.inputs[0].format)) return nullptr;
    stages.push_back({kernel, std::move(body)});
  }
  return std::make_unique<ChannelKernel>(s.inputs[0], ChannelsOfBlock(s.inputs[0], forward ? 2 : 3),
                                         std::move(stages));
}

}  // namespace partita
