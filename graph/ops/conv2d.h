#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/ops/fields.h"
#include "graph/ops/operator_concept.h"

namespace partita {

// x[n, (g,c), h, w], w[(g,k), c, kh, kw], optional b[(g,k)] -> y[n, (g,k), oh, ow]:
// cross-correlation.
struct Conv2d {
  static constexpr char kName[] = "conv2d";
  static constexpr char kDescription[] = "2-D convolution with groups, strides, dilations and bias";
  static constexpr bool kCastsResult = true;
  static constexpr bool kExactOnIntegers = true;
  static constexpr PeakShare kPeakShare = {0.60, 0.50};
  static constexpr std::array<int, 1> kNativeOperands = {0};
  static constexpr bool kTakesEpilogue = true;

  std::vector<int64_t> stride = {1, 1};    // height, width
  std::vector<int64_t> dilation = {1, 1};  // 1 = dense
  // Top, left, bottom, right; a part's may be negative at the end (bottom, right).
  std::vector<int64_t> pads = {0, 0, 0, 0};
  int64_t groups = 1;

  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit("stride", self.stride);
    visit("dilation", self.dilation);
    visit("pads", self.pads);
    visit("groups", self.groups);
  }
  friend bool operator==(const Conv2d&, const Conv2d&) = default;
};

absl::StatusOr<std::vector<TensorType>> InferResults(const Conv2d& conv,
                                                     std::span<const TensorType> operands);
ShardingRule MakeRule(const Conv2d& conv, std::span<const TensorType> operands,
                      std::span<const TensorType> results);
GradientReads ReadsForGradient(const Conv2d& conv, int operand);
Conv2d Localize(const Conv2d& conv, const PartView& view);
Work WorkOf(const Conv2d& conv, Pass pass, std::span<const TensorType> inputs,
            std::span<const TensorType> outputs);
std::vector<InPlacePair> InPlace(const Conv2d& conv, Pass pass);
double WorkPerElement(const Conv2d& conv, std::span<const Shape> operands);

static_assert(OperatorAttrs<Conv2d>);

}  // namespace partita
