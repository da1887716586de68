#include "graph/ops/reduce_mean.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/ops/attribute_checks.h"
#include "graph/ops/elementwise.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

bool IsReduced(const ReduceMean& mean, size_t d) {
  return std::find(mean.axes.begin(), mean.axes.end(), static_cast<int64_t>(d)) != mean.axes.end();
}

}  // namespace

absl::StatusOr<ReduceMean> MakeReduceMean(const Shape& x, std::vector<int64_t> axes,
                                          bool keepdims) {
  const auto rank = static_cast<int64_t>(x.size());
  ReduceMean mean{.axes = std::move(axes), .keepdims = keepdims};
  for (int64_t& axis : mean.axes) {
    if (axis < -rank || axis >= rank) {
      return absl::InvalidArgumentError(
          absl::StrCat("reduce_mean: axis ", axis, " of a tensor of shape ", ToString(x)));
    }
    if (axis < 0) axis += rank;
    mean.count *= x[static_cast<size_t>(axis)];
  }
  std::sort(mean.axes.begin(), mean.axes.end());
  return mean;
}

absl::StatusOr<std::vector<TensorType>> InferResults(const ReduceMean& mean,
                                                     std::span<const TensorType> operands) {
  RETURN_IF_ERROR(CheckOperands("reduce_mean", operands, 1, 1));
  const Shape& x = operands[0].shape;
  for (size_t k = 0; k < mean.axes.size(); ++k) {
    const int64_t least = k == 0 ? 0 : mean.axes[k - 1] + 1;
    if (mean.axes[k] < least || mean.axes[k] >= static_cast<int64_t>(x.size())) {
      return absl::InvalidArgumentError(
          absl::StrCat("reduce_mean: axes [", absl::StrJoin(mean.axes, ","),
                       "] should be ascending dimensions of ", ToString(x)));
    }
  }
  Shape y;
  int64_t count = 1;
  for (size_t d = 0; d < x.size(); ++d) {
    if (IsReduced(mean, d)) count *= x[d];
    if (!IsReduced(mean, d)) {
      y.push_back(x[d]);
    } else if (mean.keepdims) {
      y.push_back(1);
    }
  }
  if (count != mean.count || count < 1) {
    return absl::InvalidArgumentError(absl::StrCat("reduce_mean: count is ", mean.count,
                                                   ", but a mean of ", ToString(x), " takes ",
                                                   count, " elements"));
  }
  return std::vector<TensorType>{{operands[0].dtype, y}};
}

ShardingRule MakeRule(const ReduceMean& mean, std::span<const TensorType> operands,
                      std::span<const TensorType>) {
  ShardingRule rule = ElementwiseRule(operands[0].shape);
  std::vector<DimMap> kept;
  for (size_t d = 0; d < operands[0].shape.size(); ++d) {
    if (!IsReduced(mean, d)) {
      kept.push_back(Along(static_cast<int>(d)));
    } else if (mean.keepdims) {
      kept.push_back(Fixed(0, 1));
    }
  }
  rule.results[0].dims = kept;
  return std::move(rule).Finished();
}

GradientReads ReadsForGradient(const ReduceMean&, int) { return {}; }

ReduceMean Localize(const ReduceMean& mean, const PartView&) { return mean; }

Work WorkOf(const ReduceMean&, Pass pass, std::span<const TensorType> inputs,
            std::span<const TensorType> outputs) {
  return {.other = Volume(pass.is_forward() ? inputs[0].shape : outputs[0].shape)};
}

std::vector<InPlacePair> InPlace(const ReduceMean&, Pass) { return {}; }

absl::Status Rebatch(ReduceMean& mean, const Shape& x, const BatchChange&) {
  absl::StatusOr<ReduceMean> other = MakeReduceMean(x, mean.axes, mean.keepdims);
  if (other.ok()) mean = *std::move(other);
  return other.status();
}

}  // namespace partita
