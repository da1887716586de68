#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "graph/ops/fields.h"
#include "graph/ops/operator_concept.h"

namespace partita {

// x[rows..., f], gamma[f], beta[f] -> (x - mean) / sqrt(variance + epsilon) * gamma + beta, where
// mean and variance (divided by f) are those of the row (Ba, Kiros, Hinton 2016). It splits over
// rows; a row stays whole, since every element of it needs the moments of all. The gradients of x
// and gamma compute them again from x.
struct LayerNorm {
  static constexpr char kName[] = "layer_norm";
  static constexpr char kDescription[] = "normalisation of each row, along the last dimension";

  double epsilon = 1e-5;

  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit("epsilon", self.epsilon);
  }
  friend bool operator==(const LayerNorm&, const LayerNorm&) = default;
};

absl::StatusOr<std::vector<TensorType>> InferResults(const LayerNorm& norm,
                                                     std::span<const TensorType> operands);
ShardingRule MakeRule(const LayerNorm&, std::span<const TensorType> operands,
                      std::span<const TensorType> results);
GradientReads ReadsForGradient(const LayerNorm&, int operand);
LayerNorm Localize(const LayerNorm& norm, const PartView& view);
Work WorkOf(const LayerNorm&, Pass pass, std::span<const TensorType> inputs,
            std::span<const TensorType> outputs);
std::vector<InPlacePair> InPlace(const LayerNorm&, Pass pass);
double WorkPerElement(const LayerNorm&, std::span<const Shape> operands);

static_assert(OperatorAttrs<LayerNorm>);

}  // namespace partita
