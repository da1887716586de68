#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/ops/fields.h"
#include "graph/ops/operator_concept.h"

namespace partita {

// a[batch..., r, i], b[batch..., i, o] (or [batch..., o, i]) -> y[batch..., r, o]: a product of two
// matrices for each index of the batch, as in attention, where both are activations.
struct BatchMatMul {
  static constexpr char kName[] = "batch_matmul";
  static constexpr char kDescription[] = "products of two activations, matrix by matrix";
  static constexpr bool kExactOnIntegers = true;
  static constexpr PeakShare kPeakShare = {0.60, 0.60};

  bool transposed = false;  // b is [batch..., o, i]

  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit("transposed", self.transposed);
  }
  friend bool operator==(const BatchMatMul&, const BatchMatMul&) = default;
};

absl::StatusOr<std::vector<TensorType>> InferResults(const BatchMatMul& matmul,
                                                     std::span<const TensorType> operands);
ShardingRule MakeRule(const BatchMatMul& matmul, std::span<const TensorType> operands,
                      std::span<const TensorType> results);
GradientReads ReadsForGradient(const BatchMatMul& matmul, int operand);
BatchMatMul Localize(const BatchMatMul& matmul, const PartView& view);
Work WorkOf(const BatchMatMul& matmul, Pass pass, std::span<const TensorType> inputs,
            std::span<const TensorType> outputs);
std::vector<InPlacePair> InPlace(const BatchMatMul& matmul, Pass pass);
double WorkPerElement(const BatchMatMul& matmul, std::span<const Shape> operands);

// Extents of the products of a kernel: of each, y[rows, out] = a[rows, in] * b[in, out].
struct BatchMatMulExtents {
  int64_t products = 1, rows = 1, in = 1, out = 1;
};
// `first`, `second`: the inputs of the pass; `result`: what it writes.
BatchMatMulExtents ExtentsOf(const BatchMatMul& matmul, Pass pass, const Shape& first,
                             const Shape& second, const Shape& result);

static_assert(OperatorAttrs<BatchMatMul>);

}  // namespace partita
