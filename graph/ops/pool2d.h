#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/ops/fields.h"
#include "graph/ops/operator_concept.h"

namespace partita {

// x[n, c, h, w] -> y[n, c, oh, ow]: the maximum or the average of each window.
//
// Maximum: padding never wins; the first of equal maxima in row-major order takes the gradient; a
// window without an element (possible with dilation) gives 0. Average: the sum of the window's
// elements, divided by how many positions it has inside the tensor extended by `counted`; a window
// without any gives 0.
struct Pool2d {
  static constexpr char kName[] = "pool2d";
  static constexpr char kDescription[] = "2-D maximum or average pooling";
  static constexpr bool kKeepsZeros = true;
  static constexpr bool kKeepsNotFinite = true;
  static constexpr bool kRoutesByValue = true;
  static constexpr bool kSuitsCores = true;
  static constexpr std::array<int, 1> kNativeOperands = {0};

  std::string function = "max";          // max, average
  std::vector<int64_t> kernel = {1, 1};  // height, width
  std::vector<int64_t> stride = {1, 1};
  std::vector<int64_t> dilation = {1, 1};  // 1 = dense
  // Top, left, bottom, right. In a graph less than the kernel's reach; a part's are those of its
  // own windows, overhang of `ceil` included, and may be negative at the end.
  std::vector<int64_t> pads = {0, 0, 0, 0};
  // Number of padding positions at each side that count in an average's divisor: `pads` if padding
  // is to be included (count_include_pad), 0 if not. Overhang of `ceil` never counts.
  std::vector<int64_t> counted = {0, 0, 0, 0};
  // A last window that reaches over the end counts, if it starts inside the tensor or the leading
  // padding (the rule of PyTorch and ONNX).
  bool ceil = false;

  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit("function", self.function);
    visit("kernel", self.kernel);
    visit("stride", self.stride);
    visit("dilation", self.dilation);
    visit("pads", self.pads);
    visit("counted", self.counted);
    visit("ceil", self.ceil);
  }
  friend bool operator==(const Pool2d&, const Pool2d&) = default;
};

absl::StatusOr<std::vector<TensorType>> InferResults(const Pool2d& pool,
                                                     std::span<const TensorType> operands);
ShardingRule MakeRule(const Pool2d& pool, std::span<const TensorType> operands,
                      std::span<const TensorType> results);
GradientReads ReadsForGradient(const Pool2d& pool, int operand);
Pool2d Localize(const Pool2d& pool, const PartView& view);
Work WorkOf(const Pool2d& pool, Pass pass, std::span<const TensorType> inputs,
            std::span<const TensorType> outputs);
std::vector<InPlacePair> InPlace(const Pool2d& pool, Pass pass);
double WorkPerElement(const Pool2d& pool, std::span<const Shape> operands);
// Maxima are; averages divide.
bool IsExactOnIntegers(const Pool2d& pool);

static_assert(OperatorAttrs<Pool2d>);

}  // namespace partita
