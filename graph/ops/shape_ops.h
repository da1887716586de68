#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/ops/fields.h"
#include "graph/ops/operator_concept.h"

namespace partita {

// Operators that move elements and compute nothing.

// Dimension d of the result is dimension perm[d] of x.
struct Transpose {
  static constexpr char kName[] = "transpose";
  static constexpr char kDescription[] = "dimensions in another order";
  static constexpr bool kKeepsNotFinite = true;
  static constexpr bool kExactOnIntegers = true;
  std::vector<int64_t> perm;
  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit("perm", self.perm);
  }
  friend bool operator==(const Transpose&, const Transpose&) = default;
};

absl::StatusOr<std::vector<TensorType>> InferResults(const Transpose& transpose,
                                                     std::span<const TensorType> operands);
ShardingRule MakeRule(const Transpose& transpose, std::span<const TensorType> operands,
                      std::span<const TensorType> results);
GradientReads ReadsForGradient(const Transpose& transpose, int operand);
Transpose Localize(const Transpose& transpose, const PartView& view);
Work WorkOf(const Transpose& transpose, Pass pass, std::span<const TensorType> inputs,
            std::span<const TensorType> outputs);
std::vector<InPlacePair> InPlace(const Transpose& transpose, Pass pass);

// Concatenation of the operands along an axis.
struct Concat {
  static constexpr char kName[] = "concat";
  static constexpr char kDescription[] = "operands one behind the other along an axis";
  static constexpr bool kKeepsNotFinite = true;
  static constexpr bool kExactOnIntegers = true;
  int64_t axis = 1;
  // The operands' extents along the axis in a part, where gradients need them; empty in a graph.
  std::vector<int64_t> sizes;
  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit("axis", self.axis);
    visit("sizes", self.sizes);
  }
  friend bool operator==(const Concat&, const Concat&) = default;
};

absl::StatusOr<std::vector<TensorType>> InferResults(const Concat& concat,
                                                     std::span<const TensorType> operands);
ShardingRule MakeRule(const Concat& concat, std::span<const TensorType> operands,
                      std::span<const TensorType> results);
GradientReads ReadsForGradient(const Concat& concat, int operand);
Concat Localize(const Concat& concat, const PartView& view);
Work WorkOf(const Concat& concat, Pass pass, std::span<const TensorType> inputs,
            std::span<const TensorType> outputs);
std::vector<InPlacePair> InPlace(const Concat& concat, Pass pass);

// The elements [begin, end) of every dimension. A part's begin at 0: its operand is what it takes.
struct Crop {
  static constexpr char kName[] = "crop";
  static constexpr char kDescription[] = "a rectangular region of a tensor";
  static constexpr bool kKeepsNotFinite = true;
  static constexpr bool kExactOnIntegers = true;
  std::vector<int64_t> begin;  // one for each dimension, 0 <= begin < end <= extent
  std::vector<int64_t> end;
  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit("begin", self.begin);
    visit("end", self.end);
  }
  friend bool operator==(const Crop&, const Crop&) = default;
};

absl::StatusOr<std::vector<TensorType>> InferResults(const Crop& crop,
                                                     std::span<const TensorType> operands);
ShardingRule MakeRule(const Crop& crop, std::span<const TensorType> operands,
                      std::span<const TensorType> results);
GradientReads ReadsForGradient(const Crop& crop, int operand);
Crop Localize(const Crop& crop, const PartView& view);
Work WorkOf(const Crop& crop, Pass pass, std::span<const TensorType> inputs,
            std::span<const TensorType> outputs);
std::vector<InPlacePair> InPlace(const Crop& crop, Pass pass);
// A region of all samples stays one.
absl::Status Rebatch(Crop& crop, const Shape& x, const BatchChange& batch);

// x inside a border of a constant; negative pads take away.
struct Pad {
  static constexpr char kName[] = "pad";
  static constexpr char kDescription[] = "a border of a constant around a tensor";
  static constexpr bool kKeepsNotFinite = true;
  static constexpr bool kExactOnIntegers = true;
  static constexpr bool kSuitsCores = true;
  std::vector<int64_t> pads;  // padding before each dimension, then after each
  double value = 0;
  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit("pads", self.pads);
    visit("value", self.value);
  }
  friend bool operator==(const Pad&, const Pad&) = default;
};

absl::StatusOr<std::vector<TensorType>> InferResults(const Pad& pad,
                                                     std::span<const TensorType> operands);
ShardingRule MakeRule(const Pad& pad, std::span<const TensorType> operands,
                      std::span<const TensorType> results);
GradientReads ReadsForGradient(const Pad& pad, int operand);
Pad Localize(const Pad& pad, const PartView& view);
Work WorkOf(const Pad& pad, Pass pass, std::span<const TensorType> inputs,
            std::span<const TensorType> outputs);
std::vector<InPlacePair> InPlace(const Pad& pad, Pass pass);

static_assert(OperatorAttrs<Transpose>);
static_assert(OperatorAttrs<Concat>);
static_assert(OperatorAttrs<Crop>);
static_assert(OperatorAttrs<Pad>);

}  // namespace partita
