#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/ops/fields.h"
#include "graph/ops/operator_concept.h"

namespace partita {

// x[rows..., i], w[o, i] (or [i, o]), optional b[o] -> y[rows..., o]: a fully connected layer.
struct MatMul {
  static constexpr char kName[] = "matmul";
  static constexpr char kDescription[] =
      "product with a weight matrix and optional bias (fully connected)";
  static constexpr bool kExactOnIntegers = true;
  static constexpr PeakShare kPeakShare = {0.75, 0.70};
  static constexpr bool kTakesEpilogue = true;
  static constexpr int kFusesUpdateOf = 1;

  bool transposed = true;  // w is [o, i], as PyTorch's Linear keeps it

  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit("transposed", self.transposed);
  }
  friend bool operator==(const MatMul&, const MatMul&) = default;
};

absl::StatusOr<std::vector<TensorType>> InferResults(const MatMul& matmul,
                                                     std::span<const TensorType> operands);
ShardingRule MakeRule(const MatMul& matmul, std::span<const TensorType> operands,
                      std::span<const TensorType> results);
GradientReads ReadsForGradient(const MatMul& matmul, int operand);
MatMul Localize(const MatMul& matmul, const PartView& view);
Work WorkOf(const MatMul& matmul, Pass pass, std::span<const TensorType> inputs,
            std::span<const TensorType> outputs);
std::vector<InPlacePair> InPlace(const MatMul& matmul, Pass pass);
double WorkPerElement(const MatMul& matmul, std::span<const Shape> operands);

static_assert(OperatorAttrs<MatMul>);

}  // namespace partita
