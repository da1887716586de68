#include "graph/ops/lrn.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "graph/ops/attribute_checks.h"
#include "graph/ops/elementwise.h"
#include "graph/ops/tensor_form.h"
#include "graph/support/status_macros.h"

namespace partita {

std::vector<int64_t> LrnPads(int64_t size) { return {(size - 1) / 2, size / 2}; }

absl::StatusOr<std::vector<TensorType>> InferResults(const Lrn& lrn,
                                                     std::span<const TensorType> operands) {
  RETURN_IF_ERROR(CheckOperands("lrn", operands, 1, 1));
  if (operands[0].shape.size() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("lrn wants an operand [n, c, ...]; found ", ToString(operands[0])));
  }
  RETURN_IF_ERROR(CheckAttribute("lrn size", {lrn.size}, 1, 1));
  RETURN_IF_ERROR(CheckAttribute("lrn pads", lrn.pads, 2, 0));
  const std::vector<int64_t> most = LrnPads(lrn.size);
  if (lrn.pads[0] > most[0] || lrn.pads[1] > most[1]) {
    return absl::InvalidArgumentError(absl::StrCat("lrn over ", lrn.size, " channels has pads ",
                                                   lrn.pads[0], "+", lrn.pads[1], "; at most ",
                                                   most[0], "+", most[1], " fit"));
  }
  for (double number : {lrn.alpha, lrn.beta, lrn.k}) {
    if (!std::isfinite(number)) return absl::InvalidArgumentError("lrn: constants must be finite");
  }
  TensorType y = operands[0];
  y.shape[1] += lrn.pads[0] + lrn.pads[1] - lrn.size + 1;
  if (y.shape[1] < 0) {
    return absl::InvalidArgumentError(absl::StrCat("lrn: a window of ", lrn.size,
                                                   " channels does not fit into ",
                                                   ToString(operands[0].shape)));
  }
  return std::vector<TensorType>{y};
}

ShardingRule MakeRule(const Lrn& lrn, std::span<const TensorType>,
                      std::span<const TensorType> results) {
  const Shape& y = results[0].shape;
  ShardingRule rule;
  OperandRule operand;
  ResultRule result;
  for (int d = 0; d < static_cast<int>(y.size()); ++d) {
    rule.loops.push_back({DimensionName(d), y[static_cast<size_t>(d)]});
    operand.dims.push_back(d == 1 ? Window(d, 1, -lrn.pads[0], -lrn.pads[0] + lrn.size) : Along(d));
    result.dims.push_back(Along(d));
  }
  rule.operands.push_back(operand);
  rule.results.push_back(result);
  return std::move(rule).Finished();
}

GradientReads ReadsForGradient(const Lrn&, int) { return {.operands = {0}}; }

Lrn Localize(const Lrn& lrn, const PartView& view) {
  Lrn local = lrn;
  const Pads& pads = view.operands[0].pads[1];
  local.pads = {pads.before, pads.after};
  return local;
}

Work WorkOf(const Lrn& lrn, Pass pass, std::span<const TensorType> inputs,
            std::span<const TensorType> outputs) {
  const int64_t each = pass.is_forward() ? lrn.size + 4 : 3 * lrn.size + 8;
  return {.other = each * LargestVolume(inputs, outputs)};
}

std::vector<InPlacePair> InPlace(const Lrn&, Pass) { return {}; }

double WorkPerElement(const Lrn& lrn, std::span<const Shape>) {
  return static_cast<double>(lrn.size);
}

}  // namespace partita
