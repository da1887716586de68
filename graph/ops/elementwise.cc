#include "graph/ops/elementwise.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "graph/ops/attribute_checks.h"
#include "graph/support/status_macros.h"

namespace partita {

std::string DimensionName(int d) {
  if (d == 0) return "n";
  if (d == 1) return "c";
  return absl::StrCat("d", d);
}

absl::StatusOr<std::vector<TensorType>> InferResults(const Relu&,
                                                     std::span<const TensorType> operands) {
  RETURN_IF_ERROR(CheckOperands("relu", operands, 1, 1));
  return std::vector<TensorType>{operands[0]};
}

ShardingRule ElementwiseRule(const Shape& shape) {
  ShardingRule rule;
  std::vector<DimMap> dims;
  for (size_t d = 0; d < shape.size(); ++d) {
    rule.loops.push_back({DimensionName(static_cast<int>(d)), shape[d]});
    dims.push_back(Along(static_cast<int>(d)));
  }
  rule.operands.push_back({.dims = dims});
  rule.results.push_back({.dims = dims});
  return std::move(rule).Finished();
}

ShardingRule MakeRule(const Relu&, std::span<const TensorType> operands,
                      std::span<const TensorType>) {
  return ElementwiseRule(operands[0].shape);
}

GradientReads ReadsForGradient(const Relu&, int) { return {.results = {0}}; }

Relu Localize(const Relu& relu, const PartView&) { return relu; }

Work WorkOf(const Relu&, Pass, std::span<const TensorType>, std::span<const TensorType> outputs) {
  return {.other = Volume(outputs[0].shape)};
}

std::vector<InPlacePair> InPlace(const Relu&, Pass pass) {
  // The gradient reads y and dy and may take either's buffer.
  if (pass.is_forward()) return {{0, 0}};
  return {{1, 0}, {0, 0}};
}

absl::StatusOr<std::vector<TensorType>> InferResults(const Binary& binary,
                                                     std::span<const TensorType> operands) {
  if (binary.function != "add" && binary.function != "sub" && binary.function != "mul") {
    return absl::InvalidArgumentError(absl::StrCat("binary function '", binary.function,
                                                   "' is unknown; known are add, sub, mul"));
  }
  RETURN_IF_ERROR(CheckOperands(binary.function, operands, 2, 2));
  const Shape& a = operands[0].shape;
  const Shape& b = operands[1].shape;
  Shape y(std::max(a.size(), b.size()), 1);
  for (size_t d = 1; d <= y.size(); ++d) {
    const int64_t p = d <= a.size() ? a[a.size() - d] : 1;
    const int64_t q = d <= b.size() ? b[b.size() - d] : 1;
    if (p != q && p != 1 && q != 1) {
      return absl::InvalidArgumentError(absl::StrCat(binary.function, ": shapes ", ToString(a),
                                                     " and ", ToString(b), " do not broadcast"));
    }
    y[y.size() - d] = p == 1 ? q : p;
  }
  return std::vector<TensorType>{{operands[0].dtype, y}};
}

ShardingRule MakeRule(const Binary&, std::span<const TensorType> operands,
                      std::span<const TensorType> results) {
  const Shape& y = results[0].shape;
  ShardingRule rule;
  ResultRule result;
  for (size_t d = 0; d < y.size(); ++d) {
    rule.loops.push_back({DimensionName(static_cast<int>(d)), y[d]});
    result.dims.push_back(Along(static_cast<int>(d)));
  }
  for (const TensorType& type : operands) {
    OperandRule operand;
    const size_t missing = y.size() - type.shape.size();
    for (size_t d = 0; d < type.shape.size(); ++d) {
      operand.dims.push_back(type.shape[d] == 1 && y[d + missing] != 1
                                 ? Fixed(0, 1)
                                 : Along(static_cast<int>(d + missing)));
    }
    rule.operands.push_back(operand);
  }
  rule.results.push_back(result);
  return std::move(rule).Finished();
}

GradientReads ReadsForGradient(const Binary& binary, int operand) {
  if (binary.function == "mul") return {.operands = {1 - operand}};
  return {};
}

Binary Localize(const Binary& binary, const PartView&) { return binary; }

Work WorkOf(const Binary&, Pass, std::span<const TensorType> inputs,
            std::span<const TensorType> outputs) {
  int64_t largest = Volume(outputs[0].shape);
  for (const TensorType& input : inputs) largest = std::max(largest, Volume(input.shape));
  return {.other = largest};
}

std::vector<InPlacePair> InPlace(const Binary& binary, Pass pass) {
  if (pass.is_forward()) return {{0, 0}, {1, 0}};
  if (binary.function == "mul") return {{1, 0}};
  return {{0, 0}};
}

absl::StatusOr<std::vector<TensorType>> InferResults(const Scale& scale,
                                                     std::span<const TensorType> operands) {
  RETURN_IF_ERROR(CheckOperands("scale", operands, 1, 1));
  if (!std::isfinite(scale.alpha) || !std::isfinite(scale.beta)) {
    return absl::InvalidArgumentError(
        absl::StrCat("scale by ", scale.alpha, " plus ", scale.beta, ": constants must be finite"));
  }
  return std::vector<TensorType>{operands[0]};
}

ShardingRule MakeRule(const Scale&, std::span<const TensorType> operands,
                      std::span<const TensorType>) {
  return ElementwiseRule(operands[0].shape);
}

GradientReads ReadsForGradient(const Scale&, int) { return {}; }

Scale Localize(const Scale& scale, const PartView&) { return scale; }

Work WorkOf(const Scale&, Pass, std::span<const TensorType>, std::span<const TensorType> outputs) {
  return {.other = Volume(outputs[0].shape)};
}

std::vector<InPlacePair> InPlace(const Scale&, Pass) { return {{0, 0}}; }

}  // namespace partita
