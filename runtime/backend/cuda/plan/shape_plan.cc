#include <algorithm>

#include "runtime/backend/cuda/plan/kernel_planner.h"

namespace partita {
namespace {

// A part's elements keep their order.
void PlanCopy(KernelPlanner& planner) {
  planner.ForEach(Volume(planner.out_shape()), CopyElement{planner.In(0), planner.Out()});
}

}  // namespace

void PlanOperator(const Reshape&, KernelPlanner& planner) { PlanCopy(planner); }

void PlanOperator(const Crop&, KernelPlanner& planner) { PlanCopy(planner); }

void PlanOperator(const Transpose& transpose, KernelPlanner& planner) {
  const Shape& from = planner.in_shape(0);
  const Shape& to = planner.out_shape();
  const std::vector<int64_t> from_strides = RowMajorStridesOf(from);
  std::vector<int64_t> strides(to.size());
  for (size_t d = 0; d < to.size(); ++d) {
    // Dimension d of y is dimension perm[d] of x.
    const auto p = static_cast<size_t>(transpose.perm[d]);
    if (planner.pass().is_forward()) {
      strides[d] = from_strides[p];
    } else {
      strides[p] = from_strides[d];
    }
  }
  planner.ForEach(Volume(to),
                  GatherElement{planner.In(0), planner.Out(), planner.Walk(to, strides), 1.0f});
}

void PlanOperator(const Concat& concat, KernelPlanner& planner) {
  const bool forward = planner.pass().is_forward();
  const auto axis = static_cast<size_t>(concat.axis);
  const Shape& y = forward ? planner.out_shape() : planner.in_shape(0);
  const std::vector<int64_t> strides = RowMajorStridesOf(y);
  int64_t offset = 0;
  for (size_t k = 0; k < concat.sizes.size(); ++k) {
    Shape piece = y;
    piece[axis] = concat.sizes[k];
    const StridedIndex at = planner.Walk(piece, strides, offset * strides[axis]);
    offset += concat.sizes[k];
    if (forward) {
      planner.ForEach(Volume(piece), ScatterElement{planner.In(k), planner.Out(), at});
    } else if (planner.pass().gradient == static_cast<int>(k)) {
      planner.ForEach(Volume(piece), GatherElement{planner.In(0), planner.Out(), at, 1.0f});
    }
  }
}

void PlanOperator(const Pad& pad, KernelPlanner& planner) {
  const bool forward = planner.pass().is_forward();
  const Shape& x = planner.in_shape(0);
  const Shape& y = planner.out_shape();
  BorderElement border{planner.In(0), planner.Out()};
  border.value = forward ? static_cast<float>(pad.value) : 0.0f;
  if (y.size() > BorderElement::kMaxRank) return planner.Fail("too many dimensions");
  border.rank = static_cast<int>(y.size());
  for (size_t d = 0; d < y.size(); ++d) {
    border.y_extent[d] = Divisor::Of(std::max<int64_t>(1, y[d]));
    border.x_extent[d] = x[d];
    border.before[d] = forward ? pad.pads[d] : -pad.pads[d];
  }
  planner.ForEach(Volume(y), border);
}

}  // namespace partita
