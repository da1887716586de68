#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/ops/fields.h"
#include "graph/ops/operator_concept.h"

namespace partita {

// Local response normalisation across channels of x[n, c, ...]:
// y = x / (k + alpha / size * (sum of x^2 over `size` neighbouring channels))^beta (Krizhevsky,
// Sutskever, Hinton 2012, with alpha divided by size as in ONNX and PyTorch). The window of result
// channel j is [j - pads[0], j - pads[0] + size) clipped to the operand, and its own channel is at
// (size - 1) / 2 in the unclipped window.
struct Lrn {
  static constexpr char kName[] = "lrn";
  static constexpr char kDescription[] = "local response normalisation across channels";
  int64_t size = 5;
  double alpha = 1e-4;
  double beta = 0.75;
  double k = 1;
  std::vector<int64_t> pads = {2, 2};  // channels that the windows reach before and after

  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit("size", self.size);
    visit("alpha", self.alpha);
    visit("beta", self.beta);
    visit("k", self.k);
    visit("pads", self.pads);
  }
  // The operand's channel of result channel 0; more than 0 in parts that see channels before it.
  int64_t lead() const { return (size - 1) / 2 - pads[0]; }
  friend bool operator==(const Lrn&, const Lrn&) = default;
};

// The window of a whole tensor for that size.
std::vector<int64_t> LrnPads(int64_t size);

absl::StatusOr<std::vector<TensorType>> InferResults(const Lrn& lrn,
                                                     std::span<const TensorType> operands);
ShardingRule MakeRule(const Lrn& lrn, std::span<const TensorType> operands,
                      std::span<const TensorType> results);
GradientReads ReadsForGradient(const Lrn&, int operand);
Lrn Localize(const Lrn& lrn, const PartView& view);
Work WorkOf(const Lrn& lrn, Pass pass, std::span<const TensorType> inputs,
            std::span<const TensorType> outputs);
std::vector<InPlacePair> InPlace(const Lrn&, Pass pass);
double WorkPerElement(const Lrn& lrn, std::span<const Shape> operands);

static_assert(OperatorAttrs<Lrn>);

}  // namespace partita
