#include "graph/ops/matmul.h"

#include "absl/strings/str_cat.h"
#include "graph/ops/attribute_checks.h"
#include "graph/support/status_macros.h"

namespace partita {

absl::StatusOr<std::vector<TensorType>> InferResults(const MatMul& matmul,
                                                     std::span<const TensorType> operands) {
  RETURN_IF_ERROR(CheckOperands("matmul (x, weight, bias)", operands, 2, 3));
  const Shape& x = operands[0].shape;
  const Shape& w = operands[1].shape;
  if (x.size() < 2 || w.size() != 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "matmul wants x of rank >= 2 and a matrix; found ", ToString(x), " and ", ToString(w)));
  }
  const int64_t in = matmul.transposed ? w[1] : w[0];
  const int64_t out = matmul.transposed ? w[0] : w[1];
  if (x.back() != in) {
    return absl::InvalidArgumentError(
        absl::StrCat("matmul: x ", ToString(x), " does not fit weight ", ToString(w)));
  }
  if (operands.size() == 3 && operands[2].shape != Shape{out}) {
    return absl::InvalidArgumentError(
        absl::StrCat("matmul: bias ", ToString(operands[2].shape), " should be [", out, "]"));
  }
  Shape y = x;
  y.back() = out;
  return std::vector<TensorType>{{operands[0].dtype, y}};
}

ShardingRule MakeRule(const MatMul& matmul, std::span<const TensorType> operands,
                      std::span<const TensorType> results) {
  const Shape& x = operands[0].shape;
  const int rows = static_cast<int>(x.size()) - 1;
  const int i = rows;
  const int o = rows + 1;
  ShardingRule rule;
  OperandRule x_rule;
  ResultRule y_rule;
  for (int d = 0; d < rows; ++d) {
    rule.loops.push_back({d == 0 ? "n" : absl::StrCat("r", d), x[static_cast<size_t>(d)]});
    x_rule.dims.push_back(Along(d));
    y_rule.dims.push_back(Along(d));
  }
  rule.loops.push_back({"i", x.back()});
  rule.loops.push_back({"o", results[0].shape.back()});
  x_rule.dims.push_back(Along(i));
  y_rule.dims.push_back(Along(o));
  rule.operands.push_back(x_rule);
  if (matmul.transposed) {
    rule.operands.push_back({.dims = {Along(o), Along(i)}});
  } else {
    rule.operands.push_back({.dims = {Along(i), Along(o)}});
  }
  if (operands.size() == 3) rule.operands.push_back({.dims = {Along(o)}, .once = true});
  rule.results.push_back(y_rule);
  return std::move(rule).Finished();
}

GradientReads ReadsForGradient(const MatMul&, int operand) {
  if (operand == 0) return {.operands = {1}};
  if (operand == 1) return {.operands = {0}};
  return {};
}

MatMul Localize(const MatMul& matmul, const PartView&) { return matmul; }

Work WorkOf(const MatMul& matmul, Pass pass, std::span<const TensorType> inputs,
            std::span<const TensorType> outputs) {
  if (pass.gradient == 2) return {.other = Volume(inputs[0].shape)};
  const Shape& w = pass.gradient == 1   ? outputs[0].shape
                   : pass.gradient == 0 ? inputs[0].shape
                                        : inputs[1].shape;
  const Shape& y = pass.is_forward() ? outputs[0].shape : inputs[1].shape;
  return {.multiply_adds = Volume(y) * (matmul.transposed ? w[1] : w[0]),
          .other = pass.is_forward() && inputs.size() == 3 ? Volume(y) : 0};
}

std::vector<InPlacePair> InPlace(const MatMul&, Pass) { return {}; }

double WorkPerElement(const MatMul& matmul, std::span<const Shape> operands) {
  if (operands.size() < 2 || operands[1].empty()) return 1;
  const int64_t out = matmul.transposed ? operands[1].front() : operands[1].back();
  return out > 0 ? ApproximateVolume(operands[1]) / static_cast<double>(out) : 0;
}

}  // namespace partita
