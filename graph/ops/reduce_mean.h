#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/ops/fields.h"
#include "graph/ops/operator_concept.h"

namespace partita {

// The mean of x over some axes, which are kept with extent 1 or removed. A part sums over its own
// elements and divides by the whole tensor's count, so that the parts of a split reduction add up.
struct ReduceMean {
  static constexpr char kName[] = "reduce_mean";
  static constexpr char kDescription[] = "mean over some axes (global average pooling)";

  std::vector<int64_t> axes;  // ascending, 0 = outermost
  bool keepdims = true;
  int64_t count = 1;  // elements that one result averages in the whole tensor

  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit("axes", self.axes);
    visit("keepdims", self.keepdims);
    visit("count", self.count);
  }
  friend bool operator==(const ReduceMean&, const ReduceMean&) = default;
};

// The mean of a tensor of shape `x` over `axes` (in any order, negative ones from the end).
absl::StatusOr<ReduceMean> MakeReduceMean(const Shape& x, std::vector<int64_t> axes, bool keepdims);

absl::StatusOr<std::vector<TensorType>> InferResults(const ReduceMean& mean,
                                                     std::span<const TensorType> operands);
ShardingRule MakeRule(const ReduceMean& mean, std::span<const TensorType> operands,
                      std::span<const TensorType> results);
GradientReads ReadsForGradient(const ReduceMean& mean, int operand);
ReduceMean Localize(const ReduceMean& mean, const PartView& view);
Work WorkOf(const ReduceMean& mean, Pass pass, std::span<const TensorType> inputs,
            std::span<const TensorType> outputs);
std::vector<InPlacePair> InPlace(const ReduceMean& mean, Pass pass);
absl::Status Rebatch(ReduceMean& mean, const Shape& x, const BatchChange& batch);

static_assert(OperatorAttrs<ReduceMean>);

}  // namespace partita
