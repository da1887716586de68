#include <algorithm>

#include "runtime/backend/cuda/plan/kernel_planner.h"

namespace partita {
namespace {

WindowAxis AxisOf(const Pool2d& pool, size_t d, int64_t extent, int64_t count) {
  WindowAxis axis;
  axis.extent = extent;
  axis.count = count;
  axis.kernel = pool.kernel[d];
  axis.stride = pool.stride[d];
  axis.dilation = pool.dilation[d];
  axis.pad = pool.pads[d];
  axis.counted_before = pool.counted[d];
  axis.counted_after = pool.counted[d + 2];
  return axis;
}

Divisor DivisorOf(int64_t value) { return Divisor::Of(std::max<int64_t>(1, value)); }

PoolWindows WindowsOf(const Pool2d& pool, const Shape& x, const Shape& y) {
  PoolWindows windows;
  windows.rows = AxisOf(pool, 0, x[2], y[2]);
  windows.columns = AxisOf(pool, 1, x[3], y[3]);
  windows.y_columns = DivisorOf(y[3]);
  windows.y_plane = DivisorOf(y[2] * y[3]);
  windows.x_columns = DivisorOf(x[3]);
  windows.x_plane = DivisorOf(x[2] * x[3]);
  return windows;
}

}  // namespace

void PlanOperator(const Pool2d& pool, KernelPlanner& planner) {
  const bool maximum = pool.function == "max";
  if (planner.pass().is_forward()) {
    const Shape& y = planner.out_shape();
    const PoolWindows windows = WindowsOf(pool, planner.in_shape(0), y);
    if (maximum) {
      planner.ForEach(Volume(y), MaxPoolElement{windows, planner.In(0), planner.Out()});
    } else {
      planner.ForEach(Volume(y), AveragePoolElement{windows, planner.In(0), planner.Out()});
    }
    return;
  }
  const size_t dy_at = planner.inputs() - 1;
  const Shape& x = planner.out_shape();
  const Shape& y = planner.in_shape(dy_at);
  const PoolWindows windows = WindowsOf(pool, x, y);
  if (!maximum) {
    planner.ForEach(Volume(x),
                    AveragePoolGradientElement{windows, planner.In(dy_at), planner.Out()});
    return;
  }
  if (x[2] * x[3] > 0x7fffffff) return planner.Fail("too many elements in a plane");
  auto* place = planner.Scratch<int32_t>(Volume(y));
  planner.ForEach(Volume(y), MaxPoolPlaceElement{windows, planner.In(0), place});
  planner.ForEach(Volume(x),
                  MaxPoolGradientElement{windows, place, planner.In(dy_at), planner.Out()});
}

}  // namespace partita
