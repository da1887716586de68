#include "graph/ops/embedding.h"

#include "absl/strings/str_cat.h"
#include "graph/ops/attribute_checks.h"
#include "graph/ops/elementwise.h"
#include "graph/support/status_macros.h"

namespace partita {

absl::StatusOr<std::vector<TensorType>> InferResults(const Embedding&,
                                                     std::span<const TensorType> operands) {
  if (operands.size() != 2 || operands[0].dtype != DType::kInt32) {
    return absl::InvalidArgumentError(absl::StrCat(
        "embedding wants indices of int32 and a table; found ", operands.size(), " operands",
        operands.empty() ? "" : ", the first ", operands.empty() ? "" : ToString(operands[0])));
  }
  RETURN_IF_ERROR(CheckOperands("embedding (table)", operands.subspan(1), 1, 1));
  const Shape& indices = operands[0].shape;
  const Shape& table = operands[1].shape;
  if (table.size() != 2 || indices.size() + 2 > kRankLimit) {
    return absl::InvalidArgumentError(absl::StrCat(
        "embedding wants a table [rows, channels] and indices of rank ", kRankLimit - 2,
        " at most; found ", ToString(table), " and ", ToString(indices)));
  }
  Shape y = indices;
  y.push_back(table[1]);
  return std::vector<TensorType>{{operands[1].dtype, y}};
}

ShardingRule MakeRule(const Embedding&, std::span<const TensorType> operands,
                      std::span<const TensorType>) {
  const Shape& indices = operands[0].shape;
  const Shape& table = operands[1].shape;
  const int rank = static_cast<int>(indices.size());
  ShardingRule rule;
  OperandRule indices_rule{.differentiable = false};
  ResultRule result;
  for (int d = 0; d < rank; ++d) {
    rule.loops.push_back({DimensionName(d), indices[static_cast<size_t>(d)]});
    indices_rule.dims.push_back(Along(d));
    result.dims.push_back(Along(d));
  }
  rule.loops.push_back({"v", table[0]});
  rule.loops.push_back({"e", table[1]});
  result.dims.push_back(Along(rank + 1));
  rule.operands = {indices_rule, {.dims = {Along(rank), Along(rank + 1)}}};
  rule.results = {result};
  return std::move(rule).Finished();
}

GradientReads ReadsForGradient(const Embedding&, int) { return {.operands = {0}}; }

Embedding Localize(const Embedding& embedding, const PartView&) { return embedding; }

Work WorkOf(const Embedding&, Pass pass, std::span<const TensorType> inputs,
            std::span<const TensorType> outputs) {
  // The gradient clears the table and adds what was taken.
  const int64_t taken = pass.is_forward() ? 0 : Volume(inputs[1].shape);
  return {.other = Volume(outputs[0].shape) + taken};
}

std::vector<InPlacePair> InPlace(const Embedding&, Pass) { return {}; }

std::optional<int64_t> IndexLimit(const Embedding&, int operand, std::span<const Shape> operands) {
  if (operand != 0) return std::nullopt;
  return operands[1][0];
}

}  // namespace partita
