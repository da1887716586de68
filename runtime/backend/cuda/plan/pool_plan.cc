#include <algorithm>
#include <cstdlib>
#include <optional>

#include "runtime/backend/cuda/plan/kernel_planner.h"

namespace partita {
namespace {

WindowAxis AxisOf(const Pool2d& pool, size_t d, int64_t extent, int64_t count) {
  WindowAxis axis;
  axis.extent = extent;
  axis.count = count;
  axis.kernel = pool.kernel[d];
  axis.stride = Divisor::Of(pool.stride[d]);
  axis.dilation = Divisor::Of(pool.dilation[d]);
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

PlaneAxis PlaneAxisOf(const WindowAxis& axis) {
  const auto small = [](int64_t value) { return static_cast<int>(value); };
  return {small(axis.extent),       small(axis.count),          small(axis.kernel),
          small(axis.stride.value), small(axis.dilation.value), small(axis.pad)};
}

// What indices of windows have to reach: all places of both tensors, and of the padding.
int64_t PlacesOf(const PoolWindows& windows, const Shape& x, const Shape& y) {
  int64_t most = std::max(Volume(x), Volume(y));
  for (const WindowAxis* axis : {&windows.rows, &windows.columns}) {
    most = std::max({most, axis->extent + 2 * std::abs(axis->pad) + axis->counted_before +
                               axis->counted_after + axis->dilation.value * axis->kernel});
  }
  return most;
}

// Planes of so few elements that blocks hold them; nothing where they are larger.
std::optional<MaxPoolWork> PlanesOf(const PoolWindows& windows, int64_t planes, bool gradient) {
  constexpr int64_t kMostExtent = 1 << 12;    // of anything along a dimension
  constexpr int64_t kElementsOfBlock = 4000;  // that keep its threads busy
  for (const WindowAxis* axis : {&windows.rows, &windows.columns}) {
    const int64_t most = std::max({axis->extent, axis->count, axis->stride.value,
                                   axis->dilation.value * axis->kernel, std::abs(axis->pad)});
    if (most > kMostExtent || axis->extent == 0) return std::nullopt;
  }
  const int64_t plane = windows.x_plane.value;
  if (plane >= MaxPoolWork::kNone) return std::nullopt;
  MaxPoolWork work;
  work.rows = PlaneAxisOf(windows.rows);
  work.columns = PlaneAxisOf(windows.columns);
  work.x_plane = static_cast<int>(plane);
  work.planes = planes;
  work.planes_of_block = static_cast<int>(std::max<int64_t>(1, kElementsOfBlock / plane));
  work.blocks = BlocksFor(planes, work.planes_of_block, MaxPoolWork::kMostBlocks);
  work.window_columns = windows.y_columns;
  work.windows_of_plane = windows.y_plane;
  const auto of_class = [](const PlaneAxis& axis) {
    return (axis.count + axis.Apart() - 1) / axis.Apart();
  };
  work.gradient = gradient;
  work.class_columns = Divisor::Of(of_class(work.columns));
  work.windows_of_class = Divisor::Of(of_class(work.rows) * work.class_columns.value);
  if (work.shared_bytes() > MaxPoolWork::kMostPlaneBytes) return std::nullopt;
  return work;
}

// False where planes are too large.
bool PlanMaxPoolPlanes(const PoolWindows& windows, KernelPlanner& planner) {
  const bool gradient = !planner.pass().is_forward();
  const Shape& x = gradient ? planner.out_shape() : planner.in_shape(0);
  auto work = PlanesOf(windows, x[0] * x[1], gradient);
  if (!work.has_value()) return false;
  work->x = planner.In(0);
  if (gradient) work->dy = planner.In(planner.inputs() - 1);
  work->to = planner.Out();
  planner.Add(*work);
  return true;
}

}  // namespace

void PlanOperator(const Pool2d& pool, KernelPlanner& planner) {
  const bool maximum = pool.function == "max";
  if (planner.pass().is_forward()) {
    const Shape& y = planner.out_shape();
    const PoolWindows windows = WindowsOf(pool, planner.in_shape(0), y);
    if (Volume(y) == 0) return;
    if (maximum && PlanMaxPoolPlanes(windows, planner)) return;
    const int64_t places = PlacesOf(windows, planner.in_shape(0), y);
    if (maximum) {
      planner.ForEach(Volume(y), MaxPoolElement{windows, planner.In(0), planner.Out()}, places);
    } else {
      planner.ForEach(Volume(y), AveragePoolElement{windows, planner.In(0), planner.Out()}, places);
    }
    return;
  }
  const size_t dy_at = planner.inputs() - 1;
  const Shape& x = planner.out_shape();
  const Shape& y = planner.in_shape(dy_at);
  const PoolWindows windows = WindowsOf(pool, x, y);
  const int64_t places = PlacesOf(windows, x, y);
  if (!maximum) {
    planner.ForEach(Volume(x),
                    AveragePoolGradientElement{windows, planner.In(dy_at), planner.Out()}, places);
    return;
  }
  if (Volume(x) == 0) return;
  if (Volume(y) > 0 && PlanMaxPoolPlanes(windows, planner)) return;
  if (x[2] * x[3] > 0x7fffffff) return planner.Fail("too many elements in a plane");
  auto* place = planner.Scratch<int32_t>(Volume(y));
  planner.ForEach(Volume(y), MaxPoolPlaceElement{windows, planner.In(0), place}, places);
  planner.ForEach(Volume(x),
                  MaxPoolGradientElement{windows, place, planner.In(dy_at), planner.Out()}, places);
}

}  // namespace partita
