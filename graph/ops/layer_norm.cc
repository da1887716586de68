#include "graph/ops/layer_norm.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "graph/ops/attribute_checks.h"
#include "graph/ops/elementwise.h"
#include "graph/ops/tensor_form.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

constexpr int64_t kNormOperations = 8;  // per element

}  // namespace

absl::StatusOr<std::vector<TensorType>> InferResults(const LayerNorm& norm,
                                                     std::span<const TensorType> operands) {
  RETURN_IF_ERROR(CheckOperands("layer_norm (x, gamma, beta)", operands, 3, 3));
  if (!std::isfinite(norm.epsilon) || norm.epsilon <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("layer_norm: epsilon is ", norm.epsilon, "; wanted a positive number"));
  }
  const Shape& x = operands[0].shape;
  if (x.empty() || operands[1].shape != Shape{x.back()} || operands[2].shape != Shape{x.back()}) {
    return absl::InvalidArgumentError(
        absl::StrCat("layer_norm wants x[rows..., f], gamma[f] and beta[f]; found ", ToString(x),
                     ", ", ToString(operands[1].shape), " and ", ToString(operands[2].shape)));
  }
  return std::vector<TensorType>{operands[0]};
}

ShardingRule MakeRule(const LayerNorm&, std::span<const TensorType> operands,
                      std::span<const TensorType>) {
  const Shape& x = operands[0].shape;
  const int rows = static_cast<int>(x.size()) - 1;
  ShardingRule rule;
  std::vector<DimMap> dims;
  for (int d = 0; d < rows; ++d) {
    rule.loops.push_back({DimensionName(d), x[static_cast<size_t>(d)]});
    dims.push_back(Along(d));
  }
  rule.loops.push_back({"f", x.back(), /*splittable=*/false});
  dims.push_back(Along(rows));
  rule.operands = {{.dims = dims}, {.dims = {Along(rows)}}, {.dims = {Along(rows)}}};
  rule.results = {{.dims = dims}};
  return std::move(rule).Finished();
}

GradientReads ReadsForGradient(const LayerNorm&, int operand) {
  if (operand == 0) return {.operands = {0, 1}};
  if (operand == 1) return {.operands = {0}};
  return {};
}

LayerNorm Localize(const LayerNorm& norm, const PartView&) { return norm; }

Work WorkOf(const LayerNorm&, Pass, std::span<const TensorType> inputs,
            std::span<const TensorType> outputs) {
  return {.other = kNormOperations * LargestVolume(inputs, outputs)};
}

std::vector<InPlacePair> InPlace(const LayerNorm&, Pass pass) {
  if (pass.is_forward()) return {{0, 0}};
  // Inputs are x, gamma and dy.
  if (pass.gradient == 0) return {{0, 0}, {2, 0}};
  return {};
}

double WorkPerElement(const LayerNorm&, std::span<const Shape>) { return kNormOperations; }

}  // namespace partita
