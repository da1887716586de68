#include "graph/zoo/net.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/layers.h"

namespace partita {
namespace {

// Four pads from one or four, or those of SAME padding.
std::vector<int64_t> FourPads(const std::vector<int64_t>& given, bool same, const Shape& x,
                              Net::Window kernel, int64_t stride) {
  if (!same) return given.size() == 1 ? std::vector<int64_t>(4, given[0]) : given;
  std::vector<int64_t> pads(4);
  for (size_t d = 0; d < 2; ++d) {
    const int64_t out = (x[d + 2] + stride - 1) / stride;
    const int64_t extent = d == 0 ? kernel.height : kernel.width;
    const int64_t total = std::max<int64_t>((out - 1) * stride + extent - x[d + 2], 0);
    pads[d] = total / 2;
    pads[d + 2] = total - total / 2;
  }
  return pads;
}

Initializer FanIn(int64_t fan_in) {
  return {.kind = Initializer::Kind::kUniformFanIn, .fan_in = fan_in};
}

}  // namespace

Net::Net(std::string name, Shape input) : builder_(std::move(name)) {
  Take(builder_.AddInput("x", {DType::kFloat32, std::move(input)}));
}

Net& Net::Take(absl::StatusOr<TensorId> result) {
  if (result.ok()) {
    here_ = *result;
  } else {
    status_.Update(result.status());
  }
  return *this;
}

TensorId Net::Weight(const std::string& name, Shape shape, Initializer initializer,
                     bool trainable) {
  auto id = builder_.AddWeight(name, {DType::kFloat32, std::move(shape)}, initializer, nullptr,
                               trainable);
  status_.Update(id.status());
  return id.ok() ? *id : here_;
}

Net& Net::Add(const std::string& name, OpAttrs attrs, std::vector<TensorId> inputs) {
  if (!status_.ok()) return *this;
  return Take(builder_.Add({.name = name, .attrs = std::move(attrs), .inputs = std::move(inputs)}));
}

Net& Net::Conv(const std::string& name, const ConvOptions& o) {
  if (!status_.ok()) return *this;
  const Shape x = shape();
  const Shape w = {o.out, x[1] / o.groups, o.kernel.height, o.kernel.width};
  const Initializer start = FanIn(w[1] * w[2] * w[3]);
  std::vector<TensorId> inputs = {here_, Weight(absl::StrCat(name, ".weight"), w, start)};
  if (o.bias) inputs.push_back(Weight(absl::StrCat(name, ".bias"), {o.out}, start));
  return Add(name,
             Conv2d{.stride = {o.stride, o.stride},
                    .pads = FourPads(o.pads, o.same, x, o.kernel, o.stride),
                    .groups = o.groups},
             std::move(inputs));
}

Net& Net::Pool(const std::string& name, const std::string& function, const PoolOptions& o) {
  if (!status_.ok()) return *this;
  Pool2d pool{.function = function,
              .kernel = {o.kernel.height, o.kernel.width},
              .stride = {o.stride, o.stride},
              .pads = FourPads(o.pads, o.same, shape(), o.kernel, o.stride)};
  if (function == "average") pool.counted = pool.pads;
  return Add(name, pool, {here_});
}

Net& Net::MaxPool(const std::string& name, const PoolOptions& o) { return Pool(name, "max", o); }

Net& Net::AveragePool(const std::string& name, const PoolOptions& o) {
  return Pool(name, "average", o);
}

Net& Net::Linear(const std::string& name, int64_t out) {
  if (!status_.ok()) return *this;
  const int64_t in = shape().back();
  const TensorId weight = Weight(absl::StrCat(name, ".weight"), {out, in}, FanIn(in));
  const TensorId bias = Weight(absl::StrCat(name, ".bias"), {out}, FanIn(in));
  return Add(name, MatMul{}, {here_, weight, bias});
}

Net& Net::Relu(const std::string& name) { return Add(name, partita::Relu{}, {here_}); }

Net& Net::BatchNorm(const std::string& name, double epsilon) {
  if (!status_.ok()) return *this;
  const Shape channels = {shape()[1]};
  const Initializer one{.value = 1};
  BatchNormLayer layer{.name = name, .x = here_, .epsilon = epsilon};
  layer.gamma = Weight(absl::StrCat(name, ".weight"), channels, one);
  layer.beta = Weight(absl::StrCat(name, ".bias"), channels, {});
  layer.running_mean = Weight(absl::StrCat(name, ".running_mean"), channels, {}, false);
  layer.running_variance = Weight(absl::StrCat(name, ".running_var"), channels, one, false);
  if (!status_.ok()) return *this;
  return Take(AddBatchNorm(builder_, layer));
}

Net& Net::Dropout(const std::string& name, double ratio) {
  if (!status_.ok()) return *this;
  return Take(AddDropout(builder_, name, here_, ratio));
}

Net& Net::Lrn(const std::string& name, double k) {
  if (!status_.ok()) return *this;
  return Take(
      AddLrn(builder_, name, here_, partita::Lrn{.size = 5, .alpha = 1e-4, .beta = 0.75, .k = k}));
}

Net& Net::GlobalMean(const std::string& name) {
  if (!status_.ok()) return *this;
  auto mean = MakeReduceMean(shape(), {2, 3}, /*keepdims=*/true);
  status_.Update(mean.status());
  return mean.ok() ? Add(name, *mean, {here_}) : *this;
}

Net& Net::Flatten(const std::string& name) {
  if (!status_.ok()) return *this;
  return Add(name, Reshape{.shape = {-1, Volume(shape()) / shape()[0]}}, {here_});
}

Net& Net::From(TensorId id) {
  here_ = id;
  return *this;
}

Net& Net::AddTo(const std::string& name, TensorId other) {
  return Add(name, Binary{.function = "add"}, {here_, other});
}

Net& Net::ConcatChannels(const std::string& name, std::vector<TensorId> parts) {
  return Add(name, Concat{.axis = 1}, std::move(parts));
}

absl::StatusOr<Graph> Net::Finish() && {
  if (!status_.ok()) return status_;
  builder_.AddRole(TensorRole::kLogits, here_);
  return std::move(builder_).Build();
}

}  // namespace partita
