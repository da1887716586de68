#pragma once

#include "runtime/backend/cuda/elements/strided_index.h"

// Pooling. See elementwise_elements.h for what a functor is, graph/ops/pool2d.h for what it means.

namespace partita {

// The windows along one dimension.
struct WindowAxis {
  int64_t extent = 1;  // extent of x
  int64_t count = 1;   // number of windows
  int64_t kernel = 1, stride = 1, dilation = 1;
  int64_t pad = 0;                                // padding before
  int64_t counted_before = 0, counted_after = 0;  // padding that an average's divisor counts

  PARTITA_HOST_DEVICE int64_t First(int64_t window) const { return window * stride - pad; }

  // Number of positions of a window that count in an average's divisor.
  PARTITA_HOST_DEVICE int64_t Counted(int64_t window) const {
    int64_t counted = 0;
    for (int64_t a = 0; a < kernel; ++a) {
      const int64_t at = First(window) + a * dilation;
      if (at >= -counted_before && at < extent + counted_after) ++counted;
    }
    return counted;
  }

  // The windows that may hold position `at`: [*first, *last).
  PARTITA_HOST_DEVICE void Reaching(int64_t at, int64_t* first, int64_t* last) const {
    const int64_t reach = dilation * (kernel - 1);
    const int64_t lowest = at + pad - reach;
    *first = lowest <= 0 ? 0 : (lowest + stride - 1) / stride;
    *last = at + pad < 0 ? 0 : (at + pad) / stride + 1;
    if (*last > count) *last = count;
  }
  PARTITA_HOST_DEVICE bool Holds(int64_t window, int64_t at) const {
    const int64_t distance = at - First(window);
    return distance >= 0 && distance % dilation == 0 && distance / dilation < kernel;
  }
};

// An element of x or y: its plane, and where it lies there.
struct PlanePlace {
  int64_t plane, row, column;
};

struct PoolWindows {
  WindowAxis rows, columns;
  Divisor y_columns, y_plane, x_columns, x_plane;  // extents, and their products

  PARTITA_HOST_DEVICE PlanePlace InX(int64_t i) const { return PlaceOf(i, x_plane, x_columns); }
  PARTITA_HOST_DEVICE PlanePlace InY(int64_t i) const { return PlaceOf(i, y_plane, y_columns); }

  // Calls visit(offset in its plane) for the elements of x that window (i, j) reads.
  template <class Visit>
  PARTITA_HOST_DEVICE void ForEachTap(int64_t i, int64_t j, Visit&& visit) const {
    for (int64_t a = 0; a < rows.kernel; ++a) {
      const int64_t row = rows.First(i) + a * rows.dilation;
      if (row < 0 || row >= rows.extent) continue;
      for (int64_t b = 0; b < columns.kernel; ++b) {
        const int64_t column = columns.First(j) + b * columns.dilation;
        if (column >= 0 && column < columns.extent) visit(row * columns.extent + column);
      }
    }
  }

  // The offset in its plane of the first maximum of window (i, j), or -1 if the window is empty.
  // Not-a-number beats everything.
  PARTITA_HOST_DEVICE int64_t FirstMaximum(int64_t i, int64_t j, const float* x) const {
    int64_t best = -1;
    float most = 0;
    ForEachTap(i, j, [&](int64_t at) {
      const float value = x[at];
      if (best >= 0 && !(most < value) && value == value) return;
      best = at;
      most = value;
    });
    return best;
  }

 private:
  PARTITA_HOST_DEVICE static PlanePlace PlaceOf(int64_t i, const Divisor& plane,
                                                const Divisor& width) {
    const int64_t index = plane.Quotient(i);
    const int64_t rest = i - index * plane.value;
    const int64_t row = width.Quotient(rest);
    return {index, row, rest - row * width.value};
  }
};

struct MaxPoolElement {
  PoolWindows windows;
  const float* x = nullptr;
  float* y = nullptr;
  PARTITA_HOST_DEVICE void operator()(int64_t i) const {
    const auto [channel, row, column] = windows.InY(i);
    const float* plane = x + channel * windows.x_plane.value;
    const int64_t best = windows.FirstMaximum(row, column, plane);
    y[i] = best < 0 ? 0.0f : plane[best];
  }
};

// Position of each window's maximum, by which the gradient gathers.
struct MaxPoolPlaceElement {
  PoolWindows windows;
  const float* x = nullptr;
  int32_t* place = nullptr;
  PARTITA_HOST_DEVICE void operator()(int64_t i) const {
    const auto [channel, row, column] = windows.InY(i);
    place[i] = static_cast<int32_t>(
        windows.FirstMaximum(row, column, x + channel * windows.x_plane.value));
  }
};

struct MaxPoolGradientElement {
  PoolWindows windows;
  const int32_t* place = nullptr;
  const float* dy = nullptr;
  float* dx = nullptr;
  PARTITA_HOST_DEVICE void operator()(int64_t i) const {
    const auto [channel, row, column] = windows.InX(i);
    const int64_t at = row * windows.x_columns.value + column;
    const int64_t plane = channel * windows.y_plane.value;
    int64_t top = 0, bottom = 0, left = 0, right = 0;
    windows.rows.Reaching(row, &top, &bottom);
    windows.columns.Reaching(column, &left, &right);
    float sum = 0;
    for (int64_t a = top; a < bottom; ++a) {
      for (int64_t b = left; b < right; ++b) {
        const int64_t window = plane + a * windows.y_columns.value + b;
        if (place[window] == at) sum += dy[window];
      }
    }
    dx[i] = sum;
  }
};

struct AveragePoolElement {
  PoolWindows windows;
  const float* x = nullptr;
  float* y = nullptr;
  PARTITA_HOST_DEVICE void operator()(int64_t i) const {
    const auto [channel, row, column] = windows.InY(i);
    const float* plane = x + channel * windows.x_plane.value;
    double sum = 0;
    windows.ForEachTap(row, column, [&](int64_t at) { sum += static_cast<double>(plane[at]); });
    const int64_t count = windows.rows.Counted(row) * windows.columns.Counted(column);
    y[i] = count == 0 ? 0.0f : static_cast<float>(sum / static_cast<double>(count));
  }
};

struct AveragePoolGradientElement {
  PoolWindows windows;
  const float* dy = nullptr;
  float* dx = nullptr;
  PARTITA_HOST_DEVICE void operator()(int64_t i) const {
    const auto [channel, row, column] = windows.InX(i);
    const int64_t plane = channel * windows.y_plane.value;
    const WindowAxis &rows = windows.rows, &columns = windows.columns;
    int64_t top = 0, bottom = 0, left = 0, right = 0;
    rows.Reaching(row, &top, &bottom);
    columns.Reaching(column, &left, &right);
    float sum = 0;
    for (int64_t a = top; a < bottom; ++a) {
      if (!rows.Holds(a, row)) continue;
      const int64_t counted = rows.Counted(a);
      for (int64_t b = left; b < right; ++b) {
        const int64_t count = columns.Holds(b, column) ? counted * columns.Counted(b) : 0;
        if (count == 0) continue;
        sum += dy[plane + a * windows.y_columns.value + b] / static_cast<float>(count);
      }
    }
    dx[i] = sum;
  }
};

}  // namespace partita
