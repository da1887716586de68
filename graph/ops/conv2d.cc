#include "graph/ops/conv2d.h"

#include "absl/strings/str_cat.h"
#include "graph/ops/attribute_checks.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

absl::Status CheckAttributes(const Conv2d& conv) {
  RETURN_IF_ERROR(CheckAttribute("conv2d strides", conv.stride, 2, 1));
  RETURN_IF_ERROR(CheckAttribute("conv2d dilations", conv.dilation, 2, 1));
  RETURN_IF_ERROR(CheckAttribute("conv2d pads", conv.pads, 4, 0));
  return CheckAttribute("conv2d groups", {conv.groups}, 1, 1);
}

}  // namespace

absl::StatusOr<std::vector<TensorType>> InferResults(const Conv2d& conv,
                                                     std::span<const TensorType> operands) {
  RETURN_IF_ERROR(CheckAttributes(conv));
  RETURN_IF_ERROR(CheckOperands("conv2d (x, weight, bias)", operands, 2, 3));
  const Shape& x = operands[0].shape;
  const Shape& w = operands[1].shape;
  if (x.size() != 4 || w.size() != 4) {
    return absl::InvalidArgumentError(absl::StrCat("conv2d wants x and weight of rank 4; found ",
                                                   ToString(x), " and ", ToString(w)));
  }
  if (x[1] != w[1] * conv.groups || w[0] % conv.groups != 0) {
    return absl::InvalidArgumentError(absl::StrCat("conv2d: x ", ToString(x), " and weight ",
                                                   ToString(w), " do not fit ", conv.groups,
                                                   " groups"));
  }
  if (operands.size() == 3 && operands[2].shape != Shape{w[0]}) {
    return absl::InvalidArgumentError(
        absl::StrCat("conv2d: bias ", ToString(operands[2].shape), " should be [", w[0], "]"));
  }
  if (w[2] < 1 || w[3] < 1 || w[2] >= kAttributeLimit || w[3] >= kAttributeLimit) {
    return absl::InvalidArgumentError(absl::StrCat(
        "conv2d: weight ", ToString(w), " has a window without elements, or a huge one"));
  }
  Shape y = {x[0], w[0], 0, 0};
  for (size_t d = 0; d < 2; ++d) {
    const int64_t reach = conv.dilation[d] * (w[d + 2] - 1) + 1;
    const int64_t room = x[d + 2] + conv.pads[d] + conv.pads[d + 2] - reach;
    if (room < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("conv2d: a window of ", reach, " does not fit into ", ToString(x),
                       " with pads ", conv.pads[d], "+", conv.pads[d + 2]));
    }
    y[d + 2] = room / conv.stride[d] + 1;
  }
  return std::vector<TensorType>{{operands[0].dtype, y}};
}

ShardingRule MakeRule(const Conv2d& conv, std::span<const TensorType> operands,
                      std::span<const TensorType> results) {
  enum { n, g, k, c, oh, ow };
  const Shape& w = operands[1].shape;
  const Shape& y = results[0].shape;
  ShardingRule rule;
  rule.loops = {{"n", y[0]}, {"g", conv.groups}, {"k", w[0] / conv.groups},
                {"c", w[1]}, {"oh", y[2]},       {"ow", y[3]}};
  auto window = [&](int loop, size_t d) {
    return Window(loop, conv.stride[d], -conv.pads[d],
                  -conv.pads[d] + conv.dilation[d] * (w[d + 2] - 1) + 1);
  };
  rule.operands.push_back({.dims = {Along(n), Product({g, c}), window(oh, 0), window(ow, 1)}});
  rule.operands.push_back({.dims = {Product({g, k}), Along(c), Fixed(0, w[2]), Fixed(0, w[3])}});
  if (operands.size() == 3) rule.operands.push_back({.dims = {Product({g, k})}, .once = true});
  rule.results.push_back({.dims = {Along(n), Product({g, k}), Along(oh), Along(ow)}});
  return std::move(rule).Finished();
}

GradientReads ReadsForGradient(const Conv2d&, int operand) {
  if (operand == 0) return {.operands = {1}};
  if (operand == 1) return {.operands = {0}};
  return {};
}

Conv2d Localize(const Conv2d& conv, const PartView& view) {
  Conv2d local = conv;
  local.groups = view.blocks[1].size();
  const auto& pads = view.operands[0].pads;
  local.pads = {pads[2].before, pads[3].before, pads[2].after, pads[3].after};
  return local;
}

Work WorkOf(const Conv2d&, Pass pass, std::span<const TensorType> inputs,
            std::span<const TensorType> outputs) {
  if (pass.gradient == 2) return {.other = Volume(inputs[0].shape)};
  const Shape& w = pass.gradient == 1   ? outputs[0].shape
                   : pass.gradient == 0 ? inputs[0].shape
                                        : inputs[1].shape;
  const Shape& y = pass.is_forward() ? outputs[0].shape : inputs[1].shape;
  return {.multiply_adds = Volume(y) * w[1] * w[2] * w[3],
          .other = pass.is_forward() && inputs.size() == 3 ? Volume(y) : 0};
}

std::vector<InPlacePair> InPlace(const Conv2d&, Pass) { return {}; }

double WorkPerElement(const Conv2d&, std::span<const Shape> operands) {
  if (operands.size() < 2 || operands[1].empty()) return 1;
  const int64_t out = operands[1].front();
  return out > 0 ? ApproximateVolume(operands[1]) / static_cast<double>(out) : 0;
}

}  // namespace partita
