#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/ops/fields.h"
#include "graph/ops/operator_concept.h"

namespace partita {

// max(x, 0); the gradient is 0 at 0 and reads the result only.
struct Relu {
  static constexpr char kName[] = "relu";
  static constexpr char kDescription[] = "max(x, 0), element by element";
  static constexpr bool kIsEpilogue = true;
  static constexpr bool kMakesZeros = true;
  static constexpr bool kKeepsNotFinite = true;
  static constexpr bool kRoutesByValue = true;
  static constexpr bool kExactOnIntegers = true;
  static constexpr bool kOneFormat = true;
  template <class Self, class Visitor>
  static void VisitFields(Self&, Visitor&&) {}
  friend bool operator==(const Relu&, const Relu&) = default;
};

absl::StatusOr<std::vector<TensorType>> InferResults(const Relu&,
                                                     std::span<const TensorType> operands);
ShardingRule MakeRule(const Relu&, std::span<const TensorType> operands,
                      std::span<const TensorType> results);
GradientReads ReadsForGradient(const Relu&, int operand);
Relu Localize(const Relu& relu, const PartView& view);
Work WorkOf(const Relu&, Pass pass, std::span<const TensorType> inputs,
            std::span<const TensorType> outputs);
std::vector<InPlacePair> InPlace(const Relu&, Pass pass);

// a + b, a - b or a * b with NumPy's broadcasting: shapes are aligned at the last dimension, and an
// extent of 1 (or a missing leading dimension) repeats.
struct Binary {
  static constexpr char kName[] = "binary";
  static constexpr char kDescription[] = "a + b, a - b, a * b with broadcasting";
  static constexpr bool kKeepsNotFinite = true;
  static constexpr bool kExactOnIntegers = true;
  std::string function = "add";  // add, sub, mul
  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit("function", self.function);
  }
  friend bool operator==(const Binary&, const Binary&) = default;
};

absl::StatusOr<std::vector<TensorType>> InferResults(const Binary& binary,
                                                     std::span<const TensorType> operands);
ShardingRule MakeRule(const Binary& binary, std::span<const TensorType> operands,
                      std::span<const TensorType> results);
GradientReads ReadsForGradient(const Binary& binary, int operand);
Binary Localize(const Binary& binary, const PartView& view);
Work WorkOf(const Binary& binary, Pass pass, std::span<const TensorType> inputs,
            std::span<const TensorType> outputs);
std::vector<InPlacePair> InPlace(const Binary& binary, Pass pass);

// alpha * x + beta, element by element: arithmetic with a constant.
struct Scale {
  static constexpr char kName[] = "scale";
  static constexpr char kDescription[] = "alpha * x + beta for constants alpha and beta";
  static constexpr bool kKeepsNotFinite = true;
  double alpha = 1;
  double beta = 0;
  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit("alpha", self.alpha);
    visit("beta", self.beta);
  }
  friend bool operator==(const Scale&, const Scale&) = default;
};

absl::StatusOr<std::vector<TensorType>> InferResults(const Scale& scale,
                                                     std::span<const TensorType> operands);
ShardingRule MakeRule(const Scale& scale, std::span<const TensorType> operands,
                      std::span<const TensorType> results);
GradientReads ReadsForGradient(const Scale& scale, int operand);
Scale Localize(const Scale& scale, const PartView& view);
Work WorkOf(const Scale& scale, Pass pass, std::span<const TensorType> inputs,
            std::span<const TensorType> outputs);
std::vector<InPlacePair> InPlace(const Scale& scale, Pass pass);

// The rule of an operator that maps one tensor to another of its shape, element by element.
ShardingRule ElementwiseRule(const Shape& shape);

// Loop names "n", "c", "d2", "d3", ... for the dimensions of a tensor that an operator treats
// alike; loops of operators that share an anchor are matched by these names.
std::string DimensionName(int d);

static_assert(OperatorAttrs<Relu>);
static_assert(OperatorAttrs<Scale>);
static_assert(OperatorAttrs<Binary>);

}  // namespace partita
