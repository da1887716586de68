#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/ops/fields.h"
#include "graph/ops/operator_concept.h"

namespace partita {

// The same elements in row-major order under another shape. Dimensions of x and y must be products
// of common factors, as in [n,c,h,w] -> [n,c*h*w] or [2,6] -> [4,3], but not [4,6] -> [6,4].
struct Reshape {
  static constexpr char kName[] = "reshape";
  static constexpr char kDescription[] = "the same elements under another shape (flatten)";
  static constexpr bool kKeepsZeros = true;
  static constexpr bool kKeepsNotFinite = true;
  static constexpr bool kExactOnIntegers = true;
  std::vector<int64_t> shape;  // shape of the result; at most one -1, which is derived
  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit("shape", self.shape);
  }
  friend bool operator==(const Reshape&, const Reshape&) = default;
};

absl::StatusOr<std::vector<TensorType>> InferResults(const Reshape& reshape,
                                                     std::span<const TensorType> operands);
ShardingRule MakeRule(const Reshape& reshape, std::span<const TensorType> operands,
                      std::span<const TensorType> results);
GradientReads ReadsForGradient(const Reshape& reshape, int operand);
Reshape Localize(const Reshape& reshape, const PartView& view);
Work WorkOf(const Reshape& reshape, Pass pass, std::span<const TensorType> inputs,
            std::span<const TensorType> outputs);
std::vector<InPlacePair> InPlace(const Reshape& reshape, Pass pass);
absl::Status Rebatch(Reshape& reshape, const Shape& x, const BatchChange& batch);

static_assert(OperatorAttrs<Reshape>);

}  // namespace partita
