#include "graph/ops/shape_ops.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/ops/attribute_checks.h"
#include "graph/ops/elementwise.h"
#include "graph/support/check.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

Work Copies(std::span<const TensorType> outputs) { return {.other = Volume(outputs[0].shape)}; }

}  // namespace

// Transpose -------------------------------------------------------------------

absl::StatusOr<std::vector<TensorType>> InferResults(const Transpose& transpose,
                                                     std::span<const TensorType> operands) {
  RETURN_IF_ERROR(CheckOperands("transpose", operands, 1, 1));
  const Shape& x = operands[0].shape;
  std::vector<int64_t> sorted = transpose.perm;
  std::sort(sorted.begin(), sorted.end());
  bool valid = sorted.size() == x.size();
  for (size_t d = 0; valid && d < sorted.size(); ++d) valid = sorted[d] == static_cast<int64_t>(d);
  if (!valid) {
    return absl::InvalidArgumentError(
        absl::StrCat("transpose: [", absl::StrJoin(transpose.perm, ","),
                     "] is no permutation of the dimensions of ", ToString(x)));
  }
  Shape y;
  for (int64_t d : transpose.perm) y.push_back(x[static_cast<size_t>(d)]);
  return std::vector<TensorType>{{operands[0].dtype, y}};
}

ShardingRule MakeRule(const Transpose& transpose, std::span<const TensorType> operands,
                      std::span<const TensorType>) {
  ShardingRule rule = ElementwiseRule(operands[0].shape);
  rule.results[0].dims.clear();
  for (int64_t d : transpose.perm) rule.results[0].dims.push_back(Along(static_cast<int>(d)));
  return rule;
}

GradientReads ReadsForGradient(const Transpose&, int) { return {}; }
Transpose Localize(const Transpose& transpose, const PartView&) { return transpose; }
Work WorkOf(const Transpose&, Pass, std::span<const TensorType>,
            std::span<const TensorType> outputs) {
  return Copies(outputs);
}
std::vector<InPlacePair> InPlace(const Transpose&, Pass) { return {}; }

// Concat ----------------------------------------------------------------------

absl::StatusOr<std::vector<TensorType>> InferResults(const Concat& concat,
                                                     std::span<const TensorType> operands) {
  RETURN_IF_ERROR(CheckOperands("concat", operands, 1, 1 << 16));
  TensorType y = operands[0];
  const auto rank = static_cast<int64_t>(y.shape.size());
  if (concat.axis < 0 || concat.axis >= rank) {
    return absl::InvalidArgumentError(
        absl::StrCat("concat: axis ", concat.axis, " of ", ToString(y)));
  }
  const auto axis = static_cast<size_t>(concat.axis);
  y.shape[axis] = 0;
  for (const TensorType& type : operands) {
    TensorType rest = type;
    bool same = rest.shape.size() == y.shape.size();
    if (same) rest.shape[axis] = y.shape[axis];
    if (!same || rest != y) {
      return absl::InvalidArgumentError(absl::StrCat("concat: operands ", ToString(operands[0]),
                                                     " and ", ToString(type),
                                                     " differ in more than axis ", concat.axis));
    }
    y.shape[axis] += type.shape[axis];
  }
  return std::vector<TensorType>{y};
}

ShardingRule MakeRule(const Concat& concat, std::span<const TensorType> operands,
                      std::span<const TensorType> results) {
  ShardingRule rule = ElementwiseRule(results[0].shape);
  const std::vector<DimMap> dims = rule.results[0].dims;
  const auto axis = static_cast<size_t>(concat.axis);
  rule.operands.clear();
  int64_t offset = 0;
  for (const TensorType& type : operands) {
    rule.operands.push_back({.dims = dims});
    rule.operands.back().dims[axis] =
        Window(static_cast<int>(axis), 1, -offset, -offset + 1, /*slack=*/false);
    offset += type.shape[axis];
  }
  return std::move(rule).Finished();
}

GradientReads ReadsForGradient(const Concat&, int) { return {}; }

Concat Localize(const Concat& concat, const PartView& view) {
  Concat local = concat;
  local.sizes.clear();
  for (const TensorView& operand : view.operands) {
    local.sizes.push_back(operand.box[static_cast<int>(concat.axis)].size());
  }
  return local;
}

Work WorkOf(const Concat&, Pass, std::span<const TensorType>, std::span<const TensorType> outputs) {
  return Copies(outputs);
}
std::vector<InPlacePair> InPlace(const Concat&, Pass) { return {}; }

// Crop -----------------------------------------------------------------------

absl::StatusOr<std::vector<TensorType>> InferResults(const Crop& crop,
                                                     std::span<const TensorType> operands) {
  RETURN_IF_ERROR(CheckOperands("crop", operands, 1, 1));
  const Shape& x = operands[0].shape;
  bool valid = crop.begin.size() == x.size() && crop.end.size() == x.size();
  Shape y;
  for (size_t d = 0; valid && d < x.size(); ++d) {
    valid = 0 <= crop.begin[d] && crop.begin[d] < crop.end[d] && crop.end[d] <= x[d];
    y.push_back(crop.end[d] - crop.begin[d]);
  }
  if (!valid) {
    return absl::InvalidArgumentError(absl::StrCat("crop: [", absl::StrJoin(crop.begin, ","),
                                                   "] to [", absl::StrJoin(crop.end, ","),
                                                   "] is no region of ", ToString(x)));
  }
  return std::vector<TensorType>{{operands[0].dtype, y}};
}

ShardingRule MakeRule(const Crop& crop, std::span<const TensorType>,
                      std::span<const TensorType> results) {
  ShardingRule rule = ElementwiseRule(results[0].shape);
  for (size_t d = 0; d < crop.begin.size(); ++d) {
    const int64_t begin = crop.begin[d];
    rule.operands[0].dims[d] = Window(static_cast<int>(d), 1, begin, begin + 1, /*slack=*/false);
  }
  return rule;
}

GradientReads ReadsForGradient(const Crop&, int) { return {}; }

Crop Localize(const Crop& crop, const PartView& view) {
  Crop local = crop;
  for (size_t d = 0; d < crop.begin.size(); ++d) {
    local.begin[d] = 0;
    local.end[d] = view.operands[0].box[static_cast<int>(d)].size();
  }
  return local;
}

Work WorkOf(const Crop&, Pass, std::span<const TensorType>, std::span<const TensorType> outputs) {
  return Copies(outputs);
}
std::vector<InPlacePair> InPlace(const Crop&, Pass) { return {{0, 0}}; }

// Pad -------------------------------------------------------------------------

absl::StatusOr<std::vector<TensorType>> InferResults(const Pad& pad,
                                                     std::span<const TensorType> operands) {
  RETURN_IF_ERROR(CheckOperands("pad", operands, 1, 1));
  const Shape& x = operands[0].shape;
  RETURN_IF_ERROR(CheckAttribute("pads", pad.pads, 2 * x.size(), -kAttributeLimit));
  Shape y = x;
  for (size_t d = 0; d < x.size(); ++d) {
    const int64_t before = pad.pads[d];
    const int64_t after = pad.pads[d + x.size()];
    y[d] += before + after;
    if (before <= -x[d] || after <= -x[d] || y[d] <= 0) {
      return absl::InvalidArgumentError(absl::StrCat("pad: [", absl::StrJoin(pad.pads, ","),
                                                     "] leaves nothing of ", ToString(x)));
    }
  }
  return std::vector<TensorType>{{operands[0].dtype, y}};
}

ShardingRule MakeRule(const Pad& pad, std::span<const TensorType>,
                      std::span<const TensorType> results) {
  ShardingRule rule = ElementwiseRule(results[0].shape);
  for (size_t d = 0; d < results[0].shape.size(); ++d) {
    const int64_t before = pad.pads[d];
    rule.operands[0].dims[d] =
        Window(static_cast<int>(d), 1, -before, -before + 1, /*slack=*/false);
  }
  return rule;
}

GradientReads ReadsForGradient(const Pad&, int) { return {}; }

Pad Localize(const Pad& pad, const PartView& view) {
  Pad local = pad;
  const auto& pads = view.operands[0].pads;
  for (size_t d = 0; d < pads.size(); ++d) {
    local.pads[d] = pads[d].before;
    local.pads[d + pads.size()] = pads[d].after;
  }
  return local;
}

Work WorkOf(const Pad&, Pass, std::span<const TensorType>, std::span<const TensorType> outputs) {
  return Copies(outputs);
}
std::vector<InPlacePair> InPlace(const Pad&, Pass) { return {}; }

absl::Status Rebatch(Crop& crop, const Shape&, const BatchChange& batch) {
  if (!crop.begin.empty() && crop.begin[0] == 0 && crop.end[0] == batch.from) {
    crop.end[0] = batch.to;
  }
  return absl::OkStatus();
}

}  // namespace partita
