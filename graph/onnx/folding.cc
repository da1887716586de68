// Constants that are computed from constants: the shape arithmetic that exporters leave in graphs.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/onnx/operators.h"
#include "graph/onnx/shape_rules.h"
#include "graph/support/status_macros.h"

namespace partita::onnx {
namespace {

using Inputs = std::span<const Constant* const>;

absl::Status Missing(size_t i) {
  return absl::InvalidArgumentError(absl::StrCat("input ", i, " is missing"));
}

absl::StatusOr<const Constant*> Get(Inputs inputs, size_t i) {
  if (i < inputs.size() && inputs[i] != nullptr) return inputs[i];
  return Missing(i);
}

absl::StatusOr<std::vector<int64_t>> GetInts(Inputs inputs, size_t i) {
  ASSIGN_OR_RETURN(const Constant* c, Get(inputs, i));
  if (!c->floating()) return c->ints;
  return absl::InvalidArgumentError(absl::StrCat("input ", i, " is not of integers"));
}

// A constant of the same type with this shape, to be filled by Append.
absl::StatusOr<Constant> Like(const Constant& model, const Shape& shape) {
  ASSIGN_OR_RETURN(const int64_t volume, CheckedVolume(shape));
  if (volume > kMaxConstantElements) {
    return absl::InvalidArgumentError(absl::StrCat("its constant result ", ToString(shape),
                                                   " is larger than ", kMaxConstantElements,
                                                   " elements"));
  }
  return Constant{.type = model.type, .shape = shape};
}

void Append(Constant& to, const Constant& from, int64_t index) {
  if (from.floating()) {
    to.reals.push_back(from.reals[static_cast<size_t>(index)]);
  } else {
    to.ints.push_back(from.ints[static_cast<size_t>(index)]);
  }
}

absl::StatusOr<Constant> Reshaped(const Constant& c, const Shape& shape) {
  ASSIGN_OR_RETURN(const int64_t volume, CheckedVolume(shape));
  if (volume != c.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a constant ", ToString(c.shape), " does not fit shape ", ToString(shape)));
  }
  Constant result = c;
  result.shape = shape;
  return result;
}

// The product of the extents in [first, last).
int64_t Volume(const Shape& shape, size_t first, size_t last) {
  int64_t volume = 1;
  for (size_t d = first; d < last; ++d) volume *= shape[d];
  return volume;
}

}  // namespace

absl::StatusOr<Constant> FoldIdentity(NodeImport&, Inputs inputs) {
  ASSIGN_OR_RETURN(const Constant* c, Get(inputs, 0));
  return *c;
}

absl::StatusOr<Constant> FoldFlatten(NodeImport& node, Inputs inputs) {
  ASSIGN_OR_RETURN(const Constant* c, Get(inputs, 0));
  ASSIGN_OR_RETURN(const Shape shape, FlattenedShape(c->shape, node.attributes().Int("axis", 1)));
  return Reshaped(*c, shape);
}

absl::StatusOr<Constant> FoldReshape(NodeImport& node, Inputs inputs) {
  ASSIGN_OR_RETURN(const Constant* c, Get(inputs, 0));
  ASSIGN_OR_RETURN(const std::vector<int64_t> target, GetInts(inputs, 1));
  const bool allow_zero = node.attributes().Int("allowzero", 0) != 0;
  ASSIGN_OR_RETURN(const Shape shape, ResolveReshape(c->shape, target, allow_zero));
  return Reshaped(*c, shape);
}

absl::StatusOr<Constant> FoldSqueeze(NodeImport& node, Inputs inputs) {
  ASSIGN_OR_RETURN(const Constant* c, Get(inputs, 0));
  std::vector<int64_t> axes = node.attributes().Ints("axes", {});
  if (inputs.size() > 1 && inputs[1] != nullptr) {
    ASSIGN_OR_RETURN(axes, GetInts(inputs, 1));
  }
  ASSIGN_OR_RETURN(const Shape shape, SqueezedShape(c->shape, axes));
  return Reshaped(*c, shape);
}

absl::StatusOr<Constant> FoldUnsqueeze(NodeImport& node, Inputs inputs) {
  ASSIGN_OR_RETURN(const Constant* c, Get(inputs, 0));
  std::vector<int64_t> axes = node.attributes().Ints("axes", {});
  if (inputs.size() > 1 && inputs[1] != nullptr) {
    ASSIGN_OR_RETURN(axes, GetInts(inputs, 1));
  }
  ASSIGN_OR_RETURN(const Shape shape, UnsqueezedShape(c->shape, axes));
  return Reshaped(*c, shape);
}

absl::StatusOr<Constant> FoldConcat(NodeImport& node, Inputs inputs) {
  ASSIGN_OR_RETURN(const Constant* first, Get(inputs, 0));
  ASSIGN_OR_RETURN(const size_t axis,
                   CheckedAxis(node.attributes().Int("axis", 0), first->shape.size()));
  Shape shape = first->shape;
  shape[axis] = 0;
  for (const Constant* c : inputs) {
    if (c == nullptr || c->type != first->type || c->shape.size() != shape.size()) {
      return absl::InvalidArgumentError("its inputs differ in type or rank");
    }
    for (size_t d = 0; d < shape.size(); ++d) {
      if (d != axis && c->shape[d] != shape[d]) {
        return absl::InvalidArgumentError("its inputs differ in shape");
      }
    }
    shape[axis] += c->shape[axis];
  }
  ASSIGN_OR_RETURN(Constant result, Like(*first, shape));
  const int64_t outer = Volume(shape, 0, axis);
  for (int64_t row = 0; row < outer; ++row) {
    for (const Constant* c : inputs) {
      const int64_t run = Volume(c->shape, axis, shape.size());
      for (int64_t i = 0; i < run; ++i) Append(result, *c, row * run + i);
    }
  }
  return result;
}

absl::StatusOr<Constant> FoldGather(NodeImport& node, Inputs inputs) {
  ASSIGN_OR_RETURN(const Constant* data, Get(inputs, 0));
  ASSIGN_OR_RETURN(const Constant* indices, Get(inputs, 1));
  ASSIGN_OR_RETURN(const std::vector<int64_t> picks, GetInts(inputs, 1));
  ASSIGN_OR_RETURN(const size_t axis,
                   CheckedAxis(node.attributes().Int("axis", 0), data->shape.size()));
  const int64_t extent = data->shape[axis];
  Shape shape(data->shape.begin(), data->shape.begin() + static_cast<int>(axis));
  shape.insert(shape.end(), indices->shape.begin(), indices->shape.end());
  shape.insert(shape.end(), data->shape.begin() + static_cast<int>(axis) + 1, data->shape.end());
  ASSIGN_OR_RETURN(Constant result, Like(*data, shape));
  const int64_t outer = Volume(data->shape, 0, axis);
  const int64_t inner = Volume(data->shape, axis + 1, data->shape.size());
  for (int64_t row = 0; row < outer; ++row) {
    for (int64_t pick : picks) {
      if (pick < -extent || pick >= extent) {
        return absl::InvalidArgumentError(
            absl::StrCat("index ", pick, " is outside a dimension of ", extent));
      }
      const int64_t at = pick < 0 ? pick + extent : pick;
      for (int64_t i = 0; i < inner; ++i) {
        Append(result, *data, (row * extent + at) * inner + i);
      }
    }
  }
  return result;
}

absl::StatusOr<Constant> FoldSlice(NodeImport& node, Inputs inputs) {
  ASSIGN_OR_RETURN(const Constant* data, Get(inputs, 0));
  ASSIGN_OR_RETURN(const std::vector<SliceRange> ranges, SliceRanges(node, data->shape));
  Shape shape;
  for (const SliceRange& range : ranges) shape.push_back(range.count);
  ASSIGN_OR_RETURN(Constant result, Like(*data, shape));
  std::vector<int64_t> at(shape.size());
  for (int64_t n = partita::Volume(shape); n > 0; --n) {
    int64_t index = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      index = index * data->shape[d] + ranges[d].start + at[d] * ranges[d].step;
    }
    Append(result, *data, index);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++at[d] < shape[d]) break;
      at[d] = 0;
    }
  }
  return result;
}

absl::StatusOr<Constant> FoldExpand(NodeImport&, Inputs inputs) {
  ASSIGN_OR_RETURN(const Constant* data, Get(inputs, 0));
  ASSIGN_OR_RETURN(const std::vector<int64_t> target, GetInts(inputs, 1));
  ASSIGN_OR_RETURN(const Shape shape,
                   BroadcastShape(data->shape, Shape(target.begin(), target.end())));
  ASSIGN_OR_RETURN(Constant result, Like(*data, shape));
  const BroadcastIndex index(data->shape, shape);
  const int64_t volume = partita::Volume(shape);
  for (int64_t i = 0; i < volume; ++i) Append(result, *data, index.Of(i));
  return result;
}

absl::StatusOr<Constant> FoldRange(NodeImport&, Inputs inputs) {
  for (size_t i = 0; i < 3; ++i) {
    ASSIGN_OR_RETURN(const Constant* c, Get(inputs, i));
    if (c->floating() || c->size() != 1) {
      return absl::UnimplementedError("ranges of integers only");
    }
  }
  const int64_t start = inputs[0]->ints[0];
  const int64_t limit = inputs[1]->ints[0];
  const int64_t step = inputs[2]->ints[0];
  std::vector<int64_t> values;
  if (step == 0) return absl::InvalidArgumentError("its step is 0");
  const auto wide = [](int64_t v) { return static_cast<__int128>(v); };
  for (__int128 v = start; step > 0 ? v < wide(limit) : v > wide(limit); v += step) {
    if (static_cast<int64_t>(values.size()) >= kMaxConstantElements) {
      return absl::InvalidArgumentError("its constant result is too large");
    }
    values.push_back(static_cast<int64_t>(v));
  }
  return Constant::Ints(std::move(values));
}

absl::StatusOr<Constant> FoldConstantOfShape(NodeImport& node, Inputs inputs) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> extents, GetInts(inputs, 0));
  Constant value = Constant::Real(0);
  if (const TensorProto* tensor = node.attributes().Tensor("value")) {
    ASSIGN_OR_RETURN(const TensorSource source, DescribeTensor(*tensor));
    ASSIGN_OR_RETURN(value, ReadConstant(*tensor, source));
    if (value.size() != 1) return absl::InvalidArgumentError("its value is not one element");
  }
  ASSIGN_OR_RETURN(Constant result, Like(value, Shape(extents.begin(), extents.end())));
  const int64_t volume = partita::Volume(result.shape);
  for (int64_t i = 0; i < volume; ++i) Append(result, value, 0);
  return result;
}

}  // namespace partita::onnx
