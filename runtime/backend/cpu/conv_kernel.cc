#include <string>

#include "runtime/backend/cpu/cpu_kernels.h"
#include "runtime/backend/cpu/dnnl_kernel.h"
#include "runtime/backend/cpu/thread_team.h"

namespace partita {
namespace {

using dnnl_compat::ConvShape;
using dnnl_compat::Desc;
using dnnl_compat::Dims;

// x, w, y of a convolution, whichever of them the pass reads and writes.
struct ConvTensors {
  KernelTensor x, w, y;
};

ConvTensors TensorsOf(const KernelSignature& s) {
  switch (s.pass.gradient) {
    case 0:  // w, dy -> dx
      return {s.outputs[0], s.inputs[0], s.inputs[1]};
    case 1:  // x, dy -> dw
      return {s.inputs[0], s.outputs[0], s.inputs[1]};
    default:
      return {s.inputs[0], s.inputs[1], s.outputs[0]};
  }
}

ConvShape ShapeOf(const Conv2d& conv, const ConvTensors& t) {
  ConvShape shape;
  for (size_t d = 0; d < 2; ++d) {
    shape.stride.push_back(conv.stride[d]);
    shape.dilation.push_back(conv.dilation[d] - 1);
    shape.pad_before.push_back(conv.pads[d]);
    // A tail that no window reads is negative padding at the end; oneDNN requires exactly what
    // makes the sizes agree.
    const int64_t reach = conv.dilation[d] * (t.w.type.shape[d + 2] - 1) + 1;
    const int64_t used = (t.y.type.shape[d + 2] - 1) * conv.stride[d] + reach;
    shape.pad_after.push_back(used - t.x.type.shape[d + 2] - conv.pads[d]);
  }
  return shape;
}

// Grouped weights have a leading group dimension in oneDNN; the data are the same.
Dims WeightDims(const Conv2d& conv, const Shape& w) {
  if (conv.groups == 1) return {w[0], w[1], w[2], w[3]};
  return {conv.groups, w[0] / conv.groups, w[1], w[2], w[3]};
}

Desc WeightDesc(const Conv2d& conv, const Shape& w, bool any) {
  using Tag = dnnl::memory::format_tag;
  const Tag dense = conv.groups == 1 ? Tag::abcd : Tag::abcde;
  return Desc(WeightDims(conv, w), dnnl::memory::data_type::f32, any ? Tag::any : dense);
}

// Plain loops inside oneDNN, a hundred times slower than its generated code.
bool IsSlow(const char* implementation) {
  const std::string name(implementation);
  return name.rfind("ref", 0) == 0 || name.rfind("simple", 0) == 0;
}

class ConvBuilder {
 public:
  ConvBuilder(const Conv2d& conv, const KernelSignature& signature)
      : conv_(conv), s_(signature), t_(TensorsOf(signature)), shape_(ShapeOf(conv, t_)) {}

  // Native pieces are used as they are if oneDNN has fast code for that; otherwise, and for dense
  // pieces, the primitive chooses the order and the data are reordered around it.
  std::unique_ptr<HostKernel> Make() const {
    std::string implementation;
    auto kernel = MakeFor(false, implementation);
    if (!IsSlow(implementation.c_str())) return kernel;
    std::string other;
    auto reordered = MakeFor(true, other);
    return IsSlow(other.c_str()) ? std::move(kernel) : std::move(reordered);
  }

 private:
  std::unique_ptr<HostKernel> MakeFor(bool any, std::string& implementation) const {
    const bool with_bias = s_.pass.is_forward() && s_.inputs.size() == 3 && s_.inputs[2].present;
    const Desc bias = with_bias ? DescOf(s_.inputs[2]) : Desc();
    const Desc weights = WeightDesc(conv_, t_.w.type.shape, true);
    const Wanted wanted{
        {WantedDesc(t_.x, any), weights, WantedDesc(t_.y, any), with_bias ? &bias : nullptr},
        UserScratchpad()};
    const auto forward =
        dnnl_compat::ConvForward(CpuEngine(), wanted.tensors, shape_, wanted.attributes);
    if (s_.pass.gradient == 0) return MakeBackwardData(forward, wanted, implementation);
    if (s_.pass.gradient == 1) return MakeBackwardWeights(forward, wanted, implementation);
    implementation = forward.impl_info_str();
    std::vector<DnnlArgument> arguments = {
        {DNNL_ARG_SRC, false, 0, DescOf(t_.x), forward.src_desc()},
        {DNNL_ARG_WEIGHTS, false, 1, DenseWeights(), forward.weights_desc()},
        {DNNL_ARG_DST, true, 0, DescOf(t_.y), forward.dst_desc()}};
    if (with_bias) arguments.push_back({DNNL_ARG_BIAS, false, 2, bias, bias});
    return std::make_unique<DnnlKernel>(
        s_, DnnlKernel::Primitive{dnnl::convolution_forward(forward), forward.scratchpad_desc()},
        std::move(arguments));
  }

  // What the primitive is asked for.
  struct Wanted {
    dnnl_compat::Tensors tensors;
    dnnl::primitive_attr attributes;
  };

  static Desc WantedDesc(const KernelTensor& tensor, bool any) {
    return tensor.format == Format::kNative && !any ? DescOf(tensor) : AnyDescOf(tensor);
  }

  Desc DenseWeights() const { return WeightDesc(conv_, t_.w.type.shape, false); }

  std::unique_ptr<HostKernel> MakeBackwardData(
      const dnnl::convolution_forward::primitive_desc& forward, const Wanted& wanted,
      std::string& implementation) const {
    const auto pd = dnnl_compat::ConvBackwardData(CpuEngine(), wanted.tensors, shape_,
                                                  wanted.attributes, forward);
    implementation = pd.impl_info_str();
    return std::make_unique<DnnlKernel>(
        s_, DnnlKernel::Primitive{dnnl::convolution_backward_data(pd), pd.scratchpad_desc()},
        std::vector<DnnlArgument>{{DNNL_ARG_WEIGHTS, false, 0, DenseWeights(), pd.weights_desc()},
                                  {DNNL_ARG_DIFF_DST, false, 1, DescOf(t_.y), pd.diff_dst_desc()},
                                  {DNNL_ARG_DIFF_SRC, true, 0, DescOf(t_.x), pd.diff_src_desc()}});
  }

  std::unique_ptr<HostKernel> MakeBackwardWeights(
      const dnnl::convolution_forward::primitive_desc& forward, const Wanted& wanted,
      std::string& implementation) const {
    const auto pd = dnnl_compat::ConvBackwardWeights(CpuEngine(), wanted.tensors, shape_,
                                                     wanted.attributes, forward);
    implementation = pd.impl_info_str();
    return std::make_unique<DnnlKernel>(
        s_, DnnlKernel::Primitive{dnnl::convolution_backward_weights(pd), pd.scratchpad_desc()},
        std::vector<DnnlArgument>{
            {DNNL_ARG_SRC, false, 0, DescOf(t_.x), pd.src_desc()},
            {DNNL_ARG_DIFF_DST, false, 1, DescOf(t_.y), pd.diff_dst_desc()},
            {DNNL_ARG_DIFF_WEIGHTS, true, 0, DenseWeights(), pd.diff_weights_desc()}});
  }

  const Conv2d& conv_;
  const KernelSignature& s_;
  const ConvTensors t_;
  const ConvShape shape_;
};

// db[k] = sum of dy over samples and positions, in double within a block of samples.
class ConvBiasGradient : public HostKernel {
 public:
  explicit ConvBiasGradient(const KernelTensor& dy)
      : n_(dy.type.shape[0]),
        k_(dy.type.shape[1]),
        inner_(dy.type.shape[2] * dy.type.shape[3]),
        native_(dy.format == Format::kNative) {}
  int64_t scratch_bytes() const override { return 0; }
  absl::Status Run(const KernelArguments& arguments, void*) const override {
    const auto* dy = static_cast<const float*>(arguments.inputs[0].data);
    auto* db = static_cast<float*>(arguments.outputs[0].data);
    ParallelBlocks(k_, 8, [&](int64_t begin, int64_t end) {
      std::vector<double> sums(static_cast<size_t>(end - begin), 0.0);
      for (int64_t n = 0; n < n_; ++n) {
        const float* sample = dy + n * k_ * inner_;
        if (native_) {
          AddNative(sample, begin, end, sums.data());
        } else {
          for (int64_t k = begin; k < end; ++k)
            sums[static_cast<size_t>(k - begin)] += SumOf(sample + k * inner_);
        }
      }
      for (int64_t k = begin; k < end; ++k)
        db[k] = static_cast<float>(sums[static_cast<size_t>(k - begin)]);
    });
    return absl::OkStatus();
  }

 private:
  double SumOf(const float* values) const {
    float lanes[16] = {};
    int64_t i = 0;
    for (; i + 16 <= inner_; i += 16) {
      for (int l = 0; l < 16; ++l) lanes[l] += values[i + l];
    }
    double sum = 0;
    for (float lane : lanes) sum += lane;
    for (; i < inner_; ++i) sum += values[i];
    return sum;
  }

  void AddNative(const float* sample, int64_t begin, int64_t end, double* sums) const {
    std::vector<float> lanes(static_cast<size_t>(end - begin), 0.f);
    for (int64_t p = 0; p < inner_; ++p) {
      const float* row = sample + p * k_ + begin;
      for (size_t k = 0; k < lanes.size(); ++k) lanes[k] += row[k];
    }
    for (size_t k = 0; k < lanes.size(); ++k) sums[k] += lanes[k];
  }

  int64_t n_, k_, inner_;
  bool native_;
};

}  // namespace

std::unique_ptr<HostKernel> MakeConvKernel(const Conv2d& conv, const KernelSignature& signature) {
  if (!IsPlainFloat(signature)) return nullptr;
  if (signature.pass.gradient == 2) return std::make_unique<ConvBiasGradient>(signature.inputs[0]);
  try {
    return ConvBuilder(conv, signature).Make();
  } catch (const dnnl::error&) {
    return nullptr;  // a shape that oneDNN declines
  }
}

}  // namespace partita
