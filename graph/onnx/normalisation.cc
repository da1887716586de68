// Batch and local response normalisation, dropout, softmax. Whatever form the file has them in,
// they are trained as in training.

#include <cmath>

#include "absl/strings/str_cat.h"
#include "graph/layers.h"
#include "graph/onnx/operators.h"
#include "graph/onnx/shape_rules.h"
#include "graph/support/status_macros.h"

namespace partita::onnx {
namespace {

constexpr Initializer kOne{.value = 1};

// The axis must be the last; opset 12 and older flatten from the axis on, which is the same there.
absl::Status CheckSoftmaxAxis(NodeImport& node, TensorId x) {
  const size_t rank = node.ShapeOf(x).size();
  ASSIGN_OR_RETURN(const size_t axis,
                   CheckedAxis(node.attributes().Int("axis", node.opset() < 13 ? 1 : -1), rank));
  RETURN_IF_ERROR(node.attributes().status());
  if (axis + 1 == rank) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("along axis ", axis, " of ", rank, " (the last is supported)"));
}

}  // namespace

absl::Status ImportBatchNormalization(NodeImport& node) {
  Attributes& attributes = node.attributes();
  BatchNormLayer layer;
  layer.epsilon = attributes.Float("epsilon", 1e-5);
  // ONNX states the weight of the old value. Twelve digits hide the rounding of 1 - 0.9.
  layer.momentum = std::round((1 - attributes.Float("momentum", 0.9)) * 1e12) / 1e12;
  layer.frozen = node.options().freeze_bn;
  if (attributes.Int("spatial", 1) != 1) return absl::UnimplementedError("with spatial = 0");
  const bool training = attributes.Int("training_mode", 0) != 0 ||
                        (node.opset() < 14 && node.node().output_size() > 1);
  ASSIGN_OR_RETURN(layer.x, node.Tensor(0));
  const Shape x = node.ShapeOf(layer.x);
  if (x.size() < 2 || Volume(x) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("it wants an operand [n, c, ...] with elements; found ", ToString(x)));
  }
  ASSIGN_OR_RETURN(layer.gamma, node.Weight(1, kOne));
  ASSIGN_OR_RETURN(layer.beta, node.Weight(2, {}));
  ASSIGN_OR_RETURN(layer.running_mean, node.Frozen(3, {}));
  ASSIGN_OR_RETURN(layer.running_variance, node.Frozen(4, kOne));
  if (layer.frozen) {
    node.Note("keeps its statistics (freeze_bn)");
  } else {
    if (!training) node.Note("has inference form; trained with the statistics of the batch");
    const bool first = node.ClaimStatistics(layer.running_mean);
    if (!node.ClaimStatistics(layer.running_variance) || !first) {
      node.Note("shares its running statistics with another; they are not kept");
      layer.running_mean = layer.running_variance = kNoTensor;
    }
  }
  layer.name = node.NewName();
  ASSIGN_OR_RETURN(const TensorId y, AddBatchNorm(node.builder(), layer));
  node.SetTensor(0, y);
  return absl::OkStatus();
}

absl::Status ImportLrn(NodeImport& node) {
  Attributes& attributes = node.attributes();
  Lrn lrn;
  lrn.size = attributes.Int("size", 0, 1, kMaxWindow);
  lrn.alpha = attributes.Float("alpha", 1e-4);
  lrn.beta = attributes.Float("beta", 0.75);
  lrn.k = attributes.Float("bias", 1);
  RETURN_IF_ERROR(attributes.status());
  ASSIGN_OR_RETURN(const TensorId x, node.Tensor(0));
  if (node.ShapeOf(x).size() < 2) return absl::InvalidArgumentError("its operand has no channels");
  ASSIGN_OR_RETURN(const TensorId y, AddLrn(node.builder(), node.NewName(), x, lrn));
  node.SetTensor(0, y);
  return absl::OkStatus();
}

absl::Status ImportDropout(NodeImport& node) {
  double ratio = node.attributes().Float("ratio", 0.5);
  bool training = node.opset() < 12;
  if (node.opset() >= 12 && node.Has(1)) {
    ASSIGN_OR_RETURN(const Constant c, node.ConstantInput(1));
    if (c.size() != 1) return absl::InvalidArgumentError("its ratio is not one element");
    ratio = c.RealAt(0);
    // The shortest decimal of that float: 0.2 rather than 0.20000000298.
    ratio = std::round(ratio * 1e7) / 1e7;
  }
  if (node.opset() >= 12 && node.Has(2)) {
    ASSIGN_OR_RETURN(const Constant c, node.ConstantInput(2));
    if (c.size() != 1) return absl::InvalidArgumentError("its training_mode is not one element");
    training = c.IntAt(0) != 0;
  }
  RETURN_IF_ERROR(node.attributes().status());
  if (!(ratio >= 0 && ratio < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("its ratio is ", ratio, "; wanted at least 0 and less than 1"));
  }
  ASSIGN_OR_RETURN(TensorId y, node.Tensor(0));
  if (ratio > 0) {
    if (!training) node.Note("has inference form; trained with dropout");
    ASSIGN_OR_RETURN(y, AddDropout(node.builder(), node.NewName(), y, ratio));
  }
  node.SetTensor(0, y);
  return absl::OkStatus();
}

absl::Status ImportLayerNormalization(NodeImport& node) {
  const int64_t axis = node.attributes().Int("axis", -1);
  LayerNorm norm{.epsilon = node.attributes().Float("epsilon", 1e-5f)};
  RETURN_IF_ERROR(node.attributes().status());
  ASSIGN_OR_RETURN(const TensorId x, node.Tensor(0));
  const auto rank = static_cast<int64_t>(node.ShapeOf(x).size());
  if (axis != -1 && axis != rank - 1) {
    return absl::UnimplementedError(absl::StrCat("along more than the last axis (axis ", axis,
                                                 " of ", ToString(node.ShapeOf(x)), ")"));
  }
  if (!node.Has(2)) return absl::UnimplementedError("without a bias");
  ASSIGN_OR_RETURN(const TensorId gamma, node.Weight(1, kOne));
  ASSIGN_OR_RETURN(const TensorId beta, node.Weight(2, {}));
  ASSIGN_OR_RETURN(const TensorId y, node.Add(norm, {x, gamma, beta}));
  node.SetTensor(0, y);
  return absl::OkStatus();
}

absl::Status ImportSoftmax(NodeImport& node) {
  ASSIGN_OR_RETURN(const TensorId x, node.Tensor(0));
  RETURN_IF_ERROR(CheckSoftmaxAxis(node, x));
  ASSIGN_OR_RETURN(const TensorId y, AddSoftmax(node.builder(), node.NewName(), x));
  node.SetTensor(0, y);
  return absl::OkStatus();
}

absl::Status ImportLogSoftmax(NodeImport& node) {
  ASSIGN_OR_RETURN(const TensorId x, node.Tensor(0));
  RETURN_IF_ERROR(CheckSoftmaxAxis(node, x));
  ASSIGN_OR_RETURN(const TensorId y, AddLogSoftmax(node.builder(), node.NewName(), x));
  node.SetTensor(0, y);
  return absl::OkStatus();
}

}  // namespace partita::onnx
