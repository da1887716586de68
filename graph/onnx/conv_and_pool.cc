// Convolution, pooling, means and padding: operators with windows.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/onnx/operators.h"
#include "graph/onnx/shape_rules.h"
#include "graph/support/status_macros.h"

namespace partita::onnx {
namespace {

// What convolutions and pools share. `x` and `kernel` are two extents.
struct Windows {
  std::vector<int64_t> stride, dilation, pads;
};

// The pads by which ceil(in / stride) windows fit (SAME_UPPER, SAME_LOWER).
void FillSamePads(const Shape& x, const std::vector<int64_t>& kernel, bool upper,
                  Windows& windows) {
  for (size_t d = 0; d < 2; ++d) {
    const int64_t in = x[d + 2];
    const int64_t out = (in + windows.stride[d] - 1) / windows.stride[d];
    const int64_t reach = windows.dilation[d] * (kernel[d] - 1) + 1;
    const int64_t total = std::max<int64_t>((out - 1) * windows.stride[d] + reach - in, 0);
    windows.pads[d] = upper ? total / 2 : total - total / 2;
    windows.pads[d + 2] = total - windows.pads[d];
  }
}

absl::StatusOr<Windows> ReadWindows(NodeImport& node, const Shape& x,
                                    const std::vector<int64_t>& kernel) {
  Attributes& attributes = node.attributes();
  if (x.size() != 4 || kernel.size() != 2) {
    return absl::UnimplementedError(
        absl::StrCat("on an operand ", ToString(x), " (two spatial dimensions are supported)"));
  }
  Windows windows;
  windows.stride = attributes.Ints("strides", {1, 1}, 1, kMaxWindow);
  windows.dilation = attributes.Ints("dilations", {1, 1}, 1, kMaxWindow);
  windows.pads = attributes.Ints("pads", {0, 0, 0, 0}, 0, kMaxWindow);
  const std::string auto_pad = attributes.String("auto_pad", "NOTSET");
  RETURN_IF_ERROR(attributes.status());
  if (windows.stride.size() != 2 || windows.dilation.size() != 2 || windows.pads.size() != 4) {
    return absl::InvalidArgumentError("it wants two strides, two dilations and four pads");
  }
  if (auto_pad == "VALID") {
    windows.pads = {0, 0, 0, 0};
  } else if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
    FillSamePads(x, kernel, auto_pad == "SAME_UPPER", windows);
  } else if (auto_pad != "NOTSET" && !auto_pad.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("its auto_pad is '", auto_pad, "'"));
  }
  return windows;
}

// A bias that exporters build as zeros is left out.
bool IsZero(const Value& value) {
  return value.kind == Value::Kind::kConstant && value.constant->floating() &&
         std::all_of(value.constant->reals.begin(), value.constant->reals.end(),
                     [](double v) { return v == 0; });
}

absl::Status ImportPool(NodeImport& node, const std::string& function) {
  ASSIGN_OR_RETURN(const TensorId x, node.Tensor(0));
  const Shape shape = node.ShapeOf(x);
  Pool2d pool{.function = function};
  pool.kernel = node.attributes().Ints("kernel_shape", {}, 1, kMaxWindow);
  ASSIGN_OR_RETURN(Windows windows, ReadWindows(node, shape, pool.kernel));
  pool.stride = std::move(windows.stride);
  pool.dilation = std::move(windows.dilation);
  pool.pads = std::move(windows.pads);
  pool.ceil = node.attributes().Int("ceil_mode", 0) != 0;
  if (function == "average" && node.attributes().Int("count_include_pad", 0) != 0) {
    pool.counted = pool.pads;
  }
  RETURN_IF_ERROR(node.attributes().status());
  const std::vector<int64_t> ones = {1, 1};
  if (pool.kernel == ones && pool.stride == ones && pool.pads == std::vector<int64_t>(4, 0)) {
    node.Note("a window of one element changes nothing; left out");
    node.SetTensor(0, x);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const TensorId y, node.Add(pool, {x}));
  node.SetTensor(0, y);
  return absl::OkStatus();
}

absl::Status AddMean(NodeImport& node, TensorId x, std::vector<int64_t> axes, bool keepdims) {
  ASSIGN_OR_RETURN(const ReduceMean mean,
                   MakeReduceMean(node.ShapeOf(x), std::move(axes), keepdims));
  ASSIGN_OR_RETURN(const TensorId y, node.Add(mean, {x}));
  node.SetTensor(0, y);
  return absl::OkStatus();
}

}  // namespace

absl::Status ImportConv(NodeImport& node) {
  ASSIGN_OR_RETURN(const TensorId x, node.Tensor(0));
  ASSIGN_OR_RETURN(const Shape w_shape, node.ShapeOf(1));
  const Shape x_shape = node.ShapeOf(x);
  if (w_shape.size() != 4) {
    return absl::UnimplementedError(
        absl::StrCat("with a weight ", ToString(w_shape), " (2-D convolution is supported)"));
  }
  const std::vector<int64_t> kernel(w_shape.begin() + 2, w_shape.end());
  if (node.attributes().Ints("kernel_shape", kernel) != kernel || kernel[0] < 1 || kernel[1] < 1 ||
      kernel[0] > kMaxWindow || kernel[1] > kMaxWindow) {
    return absl::InvalidArgumentError(
        absl::StrCat("its kernel_shape does not fit its weight ", ToString(w_shape)));
  }
  ASSIGN_OR_RETURN(Windows windows, ReadWindows(node, x_shape, kernel));
  const Conv2d conv{.stride = std::move(windows.stride),
                    .dilation = std::move(windows.dilation),
                    .pads = std::move(windows.pads),
                    .groups = node.attributes().Int("group", 1, 1)};
  ASSIGN_OR_RETURN(const int64_t fan_in, CheckedVolume({w_shape[1], kernel[0], kernel[1]}));
  const Initializer start{.kind = Initializer::Kind::kUniformFanIn,
                          .fan_in = std::max<int64_t>(fan_in, 1)};
  std::vector<TensorId> inputs = {x};
  ASSIGN_OR_RETURN(inputs.emplace_back(), node.Weight(1, start));
  if (node.Has(2) && IsZero(node.Input(2))) {
    node.Note("its bias is a constant 0; left out");
  } else if (node.Has(2)) {
    ASSIGN_OR_RETURN(inputs.emplace_back(), node.Weight(2, start));
  }
  ASSIGN_OR_RETURN(const TensorId y, node.Add(conv, std::move(inputs)));
  node.SetTensor(0, y);
  return absl::OkStatus();
}

absl::Status ImportMaxPool(NodeImport& node) { return ImportPool(node, "max"); }

absl::Status ImportAveragePool(NodeImport& node) { return ImportPool(node, "average"); }

absl::Status ImportGlobalAveragePool(NodeImport& node) {
  ASSIGN_OR_RETURN(const TensorId x, node.Tensor(0));
  std::vector<int64_t> axes;
  for (size_t d = 2; d < node.ShapeOf(x).size(); ++d) axes.push_back(static_cast<int64_t>(d));
  if (axes.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("its operand ", ToString(node.ShapeOf(x)), " has no spatial dimension"));
  }
  return AddMean(node, x, std::move(axes), /*keepdims=*/true);
}

absl::Status ImportGlobalMaxPool(NodeImport& node) {
  ASSIGN_OR_RETURN(const TensorId x, node.Tensor(0));
  const Shape shape = node.ShapeOf(x);
  if (shape.size() != 4 || shape[2] > kMaxWindow || shape[3] > kMaxWindow) {
    return absl::UnimplementedError(absl::StrCat("on an operand ", ToString(shape)));
  }
  ASSIGN_OR_RETURN(const TensorId y,
                   node.Add(Pool2d{.function = "max", .kernel = {shape[2], shape[3]}}, {x}));
  node.SetTensor(0, y);
  return absl::OkStatus();
}

absl::Status ImportReduceMean(NodeImport& node) {
  ASSIGN_OR_RETURN(const TensorId x, node.Tensor(0));
  std::vector<int64_t> axes = node.attributes().Ints("axes", {});
  const bool keepdims = node.attributes().Int("keepdims", 1) != 0;
  if (node.Has(1)) {
    ASSIGN_OR_RETURN(axes, node.IntsInput(1));
  }
  const size_t rank = node.ShapeOf(x).size();
  if (axes.empty()) {
    if (node.attributes().Int("noop_with_empty_axes", 0) != 0) {
      node.SetTensor(0, x);
      return absl::OkStatus();
    }
    for (size_t d = 0; d < rank; ++d) axes.push_back(static_cast<int64_t>(d));
  }
  for (int64_t axis : axes) RETURN_IF_ERROR(CheckedAxis(axis, rank).status());
  return AddMean(node, x, std::move(axes), keepdims);
}

absl::Status ImportPad(NodeImport& node) {
  ASSIGN_OR_RETURN(const TensorId x, node.Tensor(0));
  const size_t rank = node.ShapeOf(x).size();
  const std::string mode = node.attributes().String("mode", "constant");
  if (mode != "constant") return absl::UnimplementedError(absl::StrCat("mode '", mode, "'"));
  std::vector<int64_t> given = node.attributes().Ints("pads", {}, -kMaxWindow, kMaxWindow);
  Pad pad{.value = node.attributes().Float("value", 0)};
  if (node.opset() >= 11) {
    ASSIGN_OR_RETURN(given, node.IntsInput(1));
    if (node.Has(2)) {
      ASSIGN_OR_RETURN(const Constant value, node.ConstantInput(2));
      if (value.size() != 1) return absl::InvalidArgumentError("its value is not one element");
      pad.value = value.RealAt(0);
    }
  }
  std::vector<int64_t> axes;
  for (size_t d = 0; d < rank; ++d) axes.push_back(static_cast<int64_t>(d));
  if (node.Has(3)) {
    ASSIGN_OR_RETURN(axes, node.IntsInput(3));
  }
  if (given.size() != 2 * axes.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("it has ", given.size(), " pads for ", axes.size(), " dimensions"));
  }
  pad.pads.assign(2 * rank, 0);
  for (size_t k = 0; k < axes.size(); ++k) {
    ASSIGN_OR_RETURN(const size_t d, CheckedAxis(axes[k], rank));
    pad.pads[d] = given[k];
    pad.pads[d + rank] = given[k + axes.size()];
  }
  const auto large = [](int64_t p) { return p < -kMaxWindow || p > kMaxWindow; };
  if (std::any_of(pad.pads.begin(), pad.pads.end(), large)) {
    return absl::InvalidArgumentError(absl::StrCat("it pads by more than ", kMaxWindow));
  }
  if (pad.pads == std::vector<int64_t>(2 * rank, 0)) {
    node.SetTensor(0, x);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const TensorId y, node.Add(std::move(pad), {x}));
  node.SetTensor(0, y);
  return absl::OkStatus();
}

}  // namespace partita::onnx
