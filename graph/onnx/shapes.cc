// Operators that move elements or state shapes.

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "graph/onnx/operators.h"
#include "graph/onnx/shape_rules.h"
#include "graph/onnx/swapped.h"
#include "graph/support/status_macros.h"

namespace partita::onnx {
namespace {

// y = the same elements of x under another shape. The batch stays open, so that the graph can be
// re-batched.
absl::Status SetReshaped(NodeImport& node, TensorId x, const Shape& shape) {
  const Shape from = node.ShapeOf(x);
  TensorId y = x;
  if (from != shape) {
    Reshape reshape{.shape = {shape.begin(), shape.end()}};
    const bool keeps_batch = !from.empty() && !shape.empty() && from[0] == shape[0];
    if (keeps_batch && Volume(from) > 0) reshape.shape[0] = -1;
    // The sizes agree, so what the operator refuses is a reshape that it does not support.
    const TensorType type = node.builder().tensor(x).type;
    if (auto result = InferResults(reshape, {{type}}); !result.ok()) {
      return absl::UnimplementedError(result.status().message());
    }
    ASSIGN_OR_RETURN(y, node.Add(std::move(reshape), {x}));
  }
  node.SetTensor(0, y);
  return absl::OkStatus();
}

// The axes of Squeeze and Unsqueeze: an input from opset 13 on, before that an attribute.
absl::StatusOr<std::vector<int64_t>> ReadAxes(NodeImport& node) {
  if (node.Has(1)) return node.IntsInput(1);
  std::vector<int64_t> axes = node.attributes().Ints("axes", {});
  RETURN_IF_ERROR(node.attributes().status());
  return axes;
}

// A target of a model exported with another batch: its leading extent is scaled where it holds the
// old batch, or the only other one that is the old batch.
std::vector<int64_t> Rebatched(const NodeImport& node, const Shape& x,
                               std::vector<int64_t> target) {
  const int64_t old_batch = node.own_batch();
  if (old_batch <= 0 || old_batch == node.batch() || target.empty() || x.empty()) return target;
  const bool open = std::find(target.begin(), target.end(), -1) != target.end();
  if (open) {
    if (target[0] == old_batch && x[0] == node.batch()) target[0] = node.batch();
    return target;
  }
  // Without -1 the target says for which batch it is: its volume is that of x then.
  double now = 1;
  double meant = 1;
  for (int64_t extent : x) now *= static_cast<double>(extent);
  for (size_t d = 0; d < target.size(); ++d) {
    const bool copied = target[d] == 0 && d < x.size();
    meant *= static_cast<double>(copied ? x[d] : target[d]);
  }
  const double ratio = static_cast<double>(node.batch()) / static_cast<double>(old_batch);
  if (meant == now || meant * ratio != now) return target;
  if (target[0] % old_batch == 0) {
    target[0] = target[0] / old_batch * node.batch();
  } else if (std::ranges::count(target, old_batch) == 1) {  // behind the steps of a sequence
    std::ranges::replace(target, old_batch, node.batch());
  }
  return target;
}

// Behind a recurrent layer exporters swap batch and steps back, and move the dimension of its
// directions, which is 1.
TensorId Untransposed(const GraphBuilder& builder, TensorId x, const std::vector<int64_t>& perm) {
  return perm == FirstTwoSwapped(perm.size()) ? SwappedFrom(builder, x) : kNoTensor;
}

// Whether the elements stay in their order.
bool MovesOnlyOnes(const Shape& shape, const std::vector<int64_t>& perm) {
  std::vector<int64_t> moved = perm;
  std::erase_if(moved, [&](int64_t d) { return shape[static_cast<size_t>(d)] == 1; });
  return std::ranges::is_sorted(moved);
}

absl::Status SetConstantOf(NodeImport& node, const TensorProto& tensor) {
  ASSIGN_OR_RETURN(const TensorSource source, DescribeTensor(tensor));
  if (IsFloating(source.type) && (source.external || source.elements > kMaxConstantElements)) {
    node.SetStored(0, tensor, source);
    return absl::OkStatus();
  }
  if (source.type == ElementType::kString) return absl::OkStatus();
  ASSIGN_OR_RETURN(Constant c, ReadConstant(tensor, source));
  node.SetConstant(0, std::move(c));
  return absl::OkStatus();
}

}  // namespace

absl::Status ImportIdentity(NodeImport& node) {
  node.SetValue(0, node.Input(0));
  return absl::OkStatus();
}

absl::Status ImportConstant(NodeImport& node) {
  Attributes& attributes = node.attributes();
  if (const TensorProto* tensor = attributes.Tensor("value")) return SetConstantOf(node, *tensor);
  RETURN_IF_ERROR(attributes.status());
  if (attributes.Has("value_float")) {
    node.SetConstant(0, Constant::Real(attributes.Float("value_float", 0)));
  } else if (attributes.Has("value_floats")) {
    const std::vector<float> floats = attributes.Floats("value_floats");
    node.SetConstant(0, Constant::Reals({floats.begin(), floats.end()}));
  } else if (attributes.Has("value_int")) {
    node.SetConstant(0, Constant::Int(attributes.Int("value_int", 0, INT64_MIN, INT64_MAX)));
  } else if (attributes.Has("value_ints")) {
    node.SetConstant(0, Constant::Ints(attributes.Ints("value_ints", {}, INT64_MIN, INT64_MAX)));
  } else if (!attributes.Has("value_string") && !attributes.Has("value_strings")) {
    return absl::UnimplementedError("without a dense value");
  }
  return attributes.status();  // strings: nothing that is supported reads them
}

absl::Status ImportShape(NodeImport& node) {
  ASSIGN_OR_RETURN(const Shape shape, node.ShapeOf(0));
  const auto rank = static_cast<int64_t>(shape.size());
  const auto place = [rank](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const int64_t start = place(node.attributes().Int("start", 0));
  const int64_t end = std::max(start, place(node.attributes().Int("end", rank)));
  node.SetConstant(0, Constant::Ints({shape.begin() + start, shape.begin() + end}));
  return absl::OkStatus();
}

absl::Status ImportSize(NodeImport& node) {
  ASSIGN_OR_RETURN(const Shape shape, node.ShapeOf(0));
  node.SetConstant(0, Constant::Int(Volume(shape)));
  return absl::OkStatus();
}

absl::Status ImportFlatten(NodeImport& node) {
  ASSIGN_OR_RETURN(const TensorId x, node.Tensor(0));
  ASSIGN_OR_RETURN(const Shape shape,
                   FlattenedShape(node.ShapeOf(x), node.attributes().Int("axis", 1)));
  return SetReshaped(node, x, shape);
}

absl::Status ImportReshape(NodeImport& node) {
  ASSIGN_OR_RETURN(const TensorId x, node.Tensor(0));
  std::vector<int64_t> target = node.attributes().Ints("shape", {});
  if (node.Has(1)) {
    ASSIGN_OR_RETURN(target, node.IntsInput(1));
  }
  const bool allow_zero = node.attributes().Int("allowzero", 0) != 0;
  const Shape from = node.ShapeOf(x);
  ASSIGN_OR_RETURN(const Shape shape,
                   ResolveReshape(from, Rebatched(node, from, std::move(target)), allow_zero));
  return SetReshaped(node, x, shape);
}

absl::Status ImportSqueeze(NodeImport& node) {
  ASSIGN_OR_RETURN(const TensorId x, node.Tensor(0));
  ASSIGN_OR_RETURN(const std::vector<int64_t> axes, ReadAxes(node));
  ASSIGN_OR_RETURN(const Shape shape, SqueezedShape(node.ShapeOf(x), axes));
  return SetReshaped(node, x, shape);
}

absl::Status ImportUnsqueeze(NodeImport& node) {
  ASSIGN_OR_RETURN(const TensorId x, node.Tensor(0));
  ASSIGN_OR_RETURN(const std::vector<int64_t> axes, ReadAxes(node));
  ASSIGN_OR_RETURN(const Shape shape, UnsqueezedShape(node.ShapeOf(x), axes));
  return SetReshaped(node, x, shape);
}

absl::Status ImportExpand(NodeImport& node) {
  ASSIGN_OR_RETURN(const TensorId x, node.Tensor(0));
  ASSIGN_OR_RETURN(const std::vector<int64_t> target, node.IntsInput(1));
  ASSIGN_OR_RETURN(const Shape shape,
                   BroadcastShape(node.ShapeOf(x), Shape(target.begin(), target.end())));
  if (shape != node.ShapeOf(x)) {
    return absl::UnimplementedError("of computed values (it must leave the shape alone)");
  }
  node.SetTensor(0, x);
  return absl::OkStatus();
}

absl::Status ImportTranspose(NodeImport& node) {
  ASSIGN_OR_RETURN(const Shape shape, node.ShapeOf(0));
  std::vector<int64_t> perm(shape.size());
  for (size_t d = 0; d < perm.size(); ++d) perm[d] = static_cast<int64_t>(perm.size() - 1 - d);
  perm = node.attributes().Ints("perm", perm);
  std::vector<int64_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  std::vector<int64_t> order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  if (sorted != order) return absl::InvalidArgumentError("its perm is not a permutation");
  Value value = node.Input(0);
  if (perm == order) {
    node.SetValue(0, std::move(value));
    return absl::OkStatus();
  }
  if (value.kind == Value::Kind::kStored && shape.size() == 2) {
    value.transposed = !value.transposed;
    node.SetValue(0, std::move(value));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const TensorId x, node.Tensor(0));
  TensorId y = node.unrolled() > 0 ? Untransposed(node.builder(), x, perm) : kNoTensor;
  if (y == kNoTensor && node.unrolled() > 0 && MovesOnlyOnes(shape, perm)) {
    Reshape reshape;
    for (int64_t d : perm) reshape.shape.push_back(shape[static_cast<size_t>(d)]);
    ASSIGN_OR_RETURN(y, node.Add(std::move(reshape), {x}));
  }
  if (y == kNoTensor) {
    ASSIGN_OR_RETURN(y, node.Add(Transpose{.perm = perm}, {x}));
  }
  node.SetTensor(0, y);
  return absl::OkStatus();
}

absl::Status ImportConcat(NodeImport& node) {
  std::vector<TensorId> inputs;
  for (int i = 0; i < node.inputs(); ++i) {
    ASSIGN_OR_RETURN(inputs.emplace_back(), node.Tensor(i));
  }
  if (inputs.empty()) return absl::InvalidArgumentError("it has no input");
  ASSIGN_OR_RETURN(const size_t axis,
                   CheckedAxis(node.attributes().Int("axis", 0), node.ShapeOf(inputs[0]).size()));
  TensorId y = inputs[0];
  if (inputs.size() > 1) {
    ASSIGN_OR_RETURN(y, node.Add(Concat{.axis = static_cast<int64_t>(axis)}, std::move(inputs)));
  }
  node.SetTensor(0, y);
  return absl::OkStatus();
}

namespace {

// One index of a dimension: a slice.
absl::Status ImportChosenIndex(NodeImport& node, int64_t axis) {
  ASSIGN_OR_RETURN(const TensorId x, node.Tensor(0));
  const Shape shape = node.ShapeOf(x);
  ASSIGN_OR_RETURN(const size_t d, CheckedAxis(axis, shape.size()));
  const Constant& constant = *node.Input(1).constant;
  if (constant.size() != 1 || constant.floating()) {
    return absl::UnimplementedError("of several constant indices");
  }
  const int64_t given = constant.IntAt(0), index = given < 0 ? given + shape[d] : given;
  if (index < 0 || index >= shape[d]) {
    return absl::InvalidArgumentError(
        absl::StrCat("index ", given, " is outside a dimension of ", shape[d]));
  }
  Crop crop{.begin = std::vector<int64_t>(shape.size(), 0),
            .end = std::vector<int64_t>(shape.begin(), shape.end())};
  crop.begin[d] = index;
  crop.end[d] = index + 1;
  ASSIGN_OR_RETURN(const TensorId y, node.Add(std::move(crop), {x}, "slice"));
  Shape result(shape.begin(), shape.begin() + static_cast<int>(d));
  result.insert(result.end(), constant.shape.begin(), constant.shape.end());
  result.insert(result.end(), shape.begin() + static_cast<int>(d) + 1, shape.end());
  return SetReshaped(node, y, result);
}

}  // namespace

absl::Status ImportGather(NodeImport& node) {
  const int64_t axis = node.attributes().Int("axis", 0);
  RETURN_IF_ERROR(node.attributes().status());
  if (node.IsTensor(0) && node.IsConstant(1)) return ImportChosenIndex(node, axis);
  ASSIGN_OR_RETURN(const Shape table, node.ShapeOf(0));
  if (table.size() != 2 || (axis != 0 && axis != -2)) {
    return absl::UnimplementedError(
        absl::StrCat("axis ", axis, " of ", ToString(table), "; supported are rows of a matrix"));
  }
  ASSIGN_OR_RETURN(const TensorId indices, node.Indices(1));
  ASSIGN_OR_RETURN(const TensorId weight,
                   node.Weight(0, {.kind = Initializer::Kind::kUniformFanIn, .fan_in = 1}));
  ASSIGN_OR_RETURN(const TensorId y, node.Add(Embedding{}, {indices, weight}));
  node.SetTensor(0, y);
  return absl::OkStatus();
}

absl::Status ImportSlice(NodeImport& node) {
  ASSIGN_OR_RETURN(const TensorId x, node.Tensor(0));
  const Shape shape = node.ShapeOf(x);
  ASSIGN_OR_RETURN(const std::vector<SliceRange> ranges, SliceRanges(node, shape));
  Crop crop;
  bool whole = true;
  for (size_t d = 0; d < ranges.size(); ++d) {
    if (ranges[d].step != 1 || ranges[d].count < 1) {
      return absl::UnimplementedError("with steps other than 1 or without elements");
    }
    crop.begin.push_back(ranges[d].start);
    crop.end.push_back(ranges[d].start + ranges[d].count);
    whole = whole && ranges[d].count == shape[d];
  }
  TensorId y = x;
  if (!whole) {
    ASSIGN_OR_RETURN(y, node.Add(std::move(crop), {x}));
  }
  node.SetTensor(0, y);
  return absl::OkStatus();
}

absl::Status ImportCast(NodeImport& node) {
  const auto type = static_cast<ElementType>(node.attributes().Int("to", 0));
  if (!IsFloating(type)) {
    return absl::UnimplementedError(absl::StrCat("of computed values to ", NameOf(type)));
  }
  node.SetValue(0, node.Input(0));
  return absl::OkStatus();
}

absl::Status ImportCastLike(NodeImport& node) {
  const Value& like = node.Input(1);
  const bool floating =
      like.kind == Value::Kind::kTensor ||
      (like.kind == Value::Kind::kStored && IsFloating(like.stored->source.type)) ||
      (like.kind == Value::Kind::kConstant && like.constant->floating());
  if (!floating) return absl::UnimplementedError("of computed values to integers");
  if (!node.IsConstant(0)) {
    node.SetValue(0, node.Input(0));
    return absl::OkStatus();
  }
  const Constant to{.type = ElementType::kFloat, .shape = {0}};
  const Constant* inputs[] = {node.Input(0).constant.get(), &to};
  ASSIGN_OR_RETURN(Constant c, FoldCastLike(node, inputs));
  node.SetConstant(0, std::move(c));
  return absl::OkStatus();
}

}  // namespace partita::onnx
