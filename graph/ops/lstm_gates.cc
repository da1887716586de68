#include "graph/ops/lstm_gates.h"

#include "absl/strings/str_cat.h"
#include "graph/ops/attribute_checks.h"
#include "graph/ops/elementwise.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

constexpr int64_t kGates = 4;

}  // namespace

absl::StatusOr<std::vector<TensorType>> InferResults(const LstmGates& gates,
                                                     std::span<const TensorType> operands) {
  const size_t wanted = gates.first ? 1 : 3;
  RETURN_IF_ERROR(CheckOperands("lstm_gates", operands, wanted, wanted));
  const Shape& a = operands[0].shape;
  if (a.empty() || a.back() % kGates != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("lstm_gates wants 4 numbers for each unit; found ", ToString(a)));
  }
  Shape state = a;
  state.back() /= kGates;
  if (!gates.first && (operands[1].shape != a || operands[2].shape != state)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "lstm_gates: beside ", ToString(a), " should be ", ToString(a), " and ", ToString(state),
        "; found ", ToString(operands[1].shape), " and ", ToString(operands[2].shape)));
  }
  return std::vector<TensorType>(2, {operands[0].dtype, state});
}

ShardingRule MakeRule(const LstmGates& gates, std::span<const TensorType>,
                      std::span<const TensorType> results) {
  const Shape& state = results[0].shape;
  const int rows = static_cast<int>(state.size()) - 1;
  ShardingRule rule;
  std::vector<DimMap> z_dims, state_dims;
  for (int d = 0; d < rows; ++d) {
    rule.loops.push_back({DimensionName(d), state[static_cast<size_t>(d)]});
    z_dims.push_back(Along(d));
    state_dims.push_back(Along(d));
  }
  rule.loops.push_back({"u", state.back()});
  z_dims.push_back(Window(rows, kGates, 0, kGates, /*slack=*/false));
  state_dims.push_back(Along(rows));
  rule.operands = {{.dims = z_dims}};
  if (!gates.first) {
    rule.operands.push_back({.dims = z_dims});
    rule.operands.push_back({.dims = state_dims});
  }
  rule.results = {{.dims = state_dims}, {.dims = state_dims}};
  return std::move(rule).Finished();
}

GradientReads ReadsForGradient(const LstmGates& gates, int) {
  if (gates.first) return {.operands = {0}};
  return {.operands = {0, 1, 2}};
}

LstmGates Localize(const LstmGates& gates, const PartView&) { return gates; }

Work WorkOf(const LstmGates&, Pass pass, std::span<const TensorType> inputs,
            std::span<const TensorType>) {
  // Each gate is a function of one number; the gradient computes all of them again.
  const int64_t of_gate = pass.is_forward() ? 6 : 10;
  return {.other = of_gate * Volume(inputs[0].shape)};
}

std::vector<InPlacePair> InPlace(const LstmGates& gates, Pass pass) {
  if (gates.first) return {};
  if (pass.is_forward()) return {{2, 1}};
  // Inputs are a, b, c and the gradients of h' and c'.
  if (pass.gradient == 2) return {{2, 0}, {4, 0}, {3, 0}};
  return {{0, 0}, {1, 0}};
}

double WorkPerElement(const LstmGates&, std::span<const Shape>) { return 6 * kGates; }

}  // namespace partita
