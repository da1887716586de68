#include "graph/ops/pool2d.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/ops/attribute_checks.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

int64_t Reach(const Pool2d& pool, size_t d) { return pool.dilation[d] * (pool.kernel[d] - 1) + 1; }

absl::Status CheckAttributes(const Pool2d& pool) {
  if (pool.function != "max" && pool.function != "average") {
    return absl::InvalidArgumentError(
        absl::StrCat("pool2d function '", pool.function, "' is unknown; known are max, average"));
  }
  RETURN_IF_ERROR(CheckAttribute("pool2d kernel", pool.kernel, 2, 1));
  RETURN_IF_ERROR(CheckAttribute("pool2d strides", pool.stride, 2, 1));
  RETURN_IF_ERROR(CheckAttribute("pool2d dilations", pool.dilation, 2, 1));
  RETURN_IF_ERROR(CheckAttribute("pool2d pads", pool.pads, 4, 0));
  RETURN_IF_ERROR(CheckAttribute("pool2d counted pads", pool.counted, 4, 0));
  for (size_t d = 0; d < 2; ++d) {
    for (size_t side : {d, d + 2}) {
      if (pool.pads[side] >= Reach(pool, d)) {
        return absl::InvalidArgumentError(
            absl::StrCat("pool2d pads must be less than the window: found pads [",
                         absl::StrJoin(pool.pads, ","), "] for a window of ", Reach(pool, d)));
      }
      if (pool.counted[side] != 0 && pool.counted[side] != pool.pads[side]) {
        return absl::InvalidArgumentError("pool2d counts all of the padding at a side, or none");
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<TensorType>> InferResults(const Pool2d& pool,
                                                     std::span<const TensorType> operands) {
  RETURN_IF_ERROR(CheckAttributes(pool));
  RETURN_IF_ERROR(CheckOperands("pool2d", operands, 1, 1));
  if (operands[0].shape.size() != 4) {
    return absl::InvalidArgumentError(
        absl::StrCat("pool2d wants an operand of rank 4; found ", ToString(operands[0])));
  }
  const Shape& x = operands[0].shape;
  Shape y = {x[0], x[1], 0, 0};
  for (size_t d = 0; d < 2; ++d) {
    const int64_t room = x[d + 2] + pool.pads[d] + pool.pads[d + 2] - Reach(pool, d);
    if (room < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("pool2d: a window of ", Reach(pool, d), " does not fit into ", ToString(x),
                       " with pads ", pool.pads[d], "+", pool.pads[d + 2]));
    }
    const int64_t stride = pool.stride[d];
    int64_t count = room / stride + 1;
    // One more window, unless it would start after the tensor.
    if (pool.ceil && room % stride != 0 && count * stride < x[d + 2] + pool.pads[d]) ++count;
    y[d + 2] = count;
  }
  return std::vector<TensorType>{{operands[0].dtype, y}};
}

ShardingRule MakeRule(const Pool2d& pool, std::span<const TensorType>,
                      std::span<const TensorType> results) {
  enum { n, c, oh, ow };
  const Shape& y = results[0].shape;
  auto window = [&](int loop, size_t d) {
    return Window(loop, pool.stride[d], -pool.pads[d], -pool.pads[d] + Reach(pool, d));
  };
  ShardingRule rule;
  rule.loops = {{"n", y[0]}, {"c", y[1]}, {"oh", y[2]}, {"ow", y[3]}};
  rule.operands.push_back({.dims = {Along(n), Along(c), window(oh, 0), window(ow, 1)}});
  rule.results.push_back({.dims = {Along(n), Along(c), Along(oh), Along(ow)}});
  return std::move(rule).Finished();
}

GradientReads ReadsForGradient(const Pool2d& pool, int) {
  if (pool.function == "max") return {.operands = {0}};
  return {};
}

Pool2d Localize(const Pool2d& pool, const PartView& view) {
  Pool2d local = pool;
  local.ceil = false;
  for (size_t d = 0; d < 2; ++d) {
    const Pads pads = view.operands[0].pads[d + 2];
    local.pads[d] = pads.before;
    local.pads[d + 2] = pads.after;
    // What reaches further over the end than the declared padding is overhang of `ceil`.
    local.counted[d] = std::min<int64_t>(pool.counted[d], pads.before);
    local.counted[d + 2] = std::clamp<int64_t>(pads.after, 0, pool.counted[d + 2]);
  }
  return local;
}

Work WorkOf(const Pool2d& pool, Pass pass, std::span<const TensorType> inputs,
            std::span<const TensorType> outputs) {
  const Shape& y = pass.is_forward() ? outputs[0].shape : inputs.back().shape;
  return {.other = Volume(y) * pool.kernel[0] * pool.kernel[1]};
}

std::vector<InPlacePair> InPlace(const Pool2d&, Pass) { return {}; }

double WorkPerElement(const Pool2d& pool, std::span<const Shape>) {
  return ApproximateVolume(Shape(pool.kernel.begin(), pool.kernel.end()));
}

bool IsExactOnIntegers(const Pool2d& pool) { return pool.function == "max"; }

}  // namespace partita
