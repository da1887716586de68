#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/ops/fields.h"
#include "graph/ops/operator_concept.h"

namespace partita {

// Gates of an LSTM cell, after its matrix products (Hochreiter, Schmidhuber 1997; forget gate of
// Gers et al. 2000):
//
//   z = a + b                          a[rows..., 4 u] from the cell's input, with the bias,
//                                      b[rows..., 4 u] from the hidden state before
//   c' = sigmoid(f) * c + sigmoid(i) * tanh(g)
//   h' = sigmoid(o) * tanh(c')         -> h'[rows..., u], c'[rows..., u]
//
// Element 4 j + k of z is gate k of unit j, in PyTorch's order i, f, g, o: a block of units has its
// gates in one interval, so that a split of the product's columns fits one of the units. (PyTorch
// keeps the units of a gate together: its row k u + j of a weight is row 4 j + k here.) The
// first cell of a sequence has one operand, a: b and c are zero.
struct LstmGates {
  static constexpr char kName[] = "lstm_gates";
  static constexpr char kDescription[] = "gates of an LSTM cell: hidden and cell state";
  bool first = false;  // cell of a sequence
  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit("first", self.first);
  }
  friend bool operator==(const LstmGates&, const LstmGates&) = default;
};

absl::StatusOr<std::vector<TensorType>> InferResults(const LstmGates&,
                                                     std::span<const TensorType> operands);
ShardingRule MakeRule(const LstmGates& gates, std::span<const TensorType> operands,
                      std::span<const TensorType> results);
GradientReads ReadsForGradient(const LstmGates& gates, int operand);
LstmGates Localize(const LstmGates& gates, const PartView& view);
Work WorkOf(const LstmGates&, Pass pass, std::span<const TensorType> inputs,
            std::span<const TensorType> outputs);
std::vector<InPlacePair> InPlace(const LstmGates&, Pass pass);

double WorkPerElement(const LstmGates& gates, std::span<const Shape> operands);

static_assert(OperatorAttrs<LstmGates>);

}  // namespace partita
