#pragma once

#include "runtime/backend/cuda/elements/strided_index.h"

// Pooling. See elementwise_elements.h for what a functor is, graph/ops/pool2d.h for what it means.

namespace partita {

// The windows along one dimension. Int: a type that has all places of a tensor.
struct WindowAxis {
  int64_t extent = 1;  // extent of x
  int64_t count = 1;   // number of windows
  int64_t kernel = 1;
  Divisor stride, dilation;
  int64_t pad = 0;                                // padding before
  int64_t counted_before = 0, counted_after = 0;  // padding that an average's divisor counts

  template <class Int>
  PARTITA_HOST_DEVICE Int First(Int window) const {
    return window * static_cast<Int>(stride.value) - static_cast<Int>(pad);
  }

  // Number of positions of a window that count in an average's divisor.
  template <class Int>
  PARTITA_HOST_DEVICE Int Counted(Int window) const {
    Int counted = 0;
    Int at = First(window) + static_cast<Int>(counted_before);
    const Int end = static_cast<Int>(counted_before + extent + counted_after);
    for (Int a = 0; a < static_cast<Int>(kernel); ++a) {
      if (at >= 0 && at < end) ++counted;
      at += static_cast<Int>(dilation.value);
    }
    return counted;
  }

  // The windows that may hold position `at`: [first, last).
  template <class Int>
  struct Range {
    Int first, last;
  };
  template <class Int>
  PARTITA_HOST_DEVICE Range<Int> Reaching(Int at) const {
    const Int padded = at + static_cast<Int>(pad);
    const Int lowest = padded - static_cast<Int>(dilation.value * (kernel - 1));
    const auto past = static_cast<Int>(stride.value - 1);
    const Int last = padded < 0 ? Int{0} : stride.Quotient(padded) + 1;
    return {lowest <= 0 ? Int{0} : stride.Quotient(static_cast<Int>(lowest + past)),
            last > count ? static_cast<Int>(count) : last};
  }
  template <class Int>
  PARTITA_HOST_DEVICE bool Holds(Int window, Int at) const {
    const Int distance = at - First(window);
    if (distance < 0) return false;
    const auto [place, rest] = dilation.Divide(distance);
    return rest == 0 && place < kernel;
  }
};

// An element of x or y: its plane, and where it lies there.
template <class Int>
struct PlanePlace {
  Int plane, row, column;
};

struct PoolWindows {
  WindowAxis rows, columns;
  Divisor y_columns, y_plane, x_columns, x_plane;  // extents, and their products

  template <class Int>
  PARTITA_HOST_DEVICE PlanePlace<Int> InX(Int i) const {
    return PlaceOf(i, x_plane, x_columns);
  }
  template <class Int>
  PARTITA_HOST_DEVICE PlanePlace<Int> InY(Int i) const {
    return PlaceOf(i, y_plane, y_columns);
  }

  // Calls visit(offset in its plane) for the elements of x that window (i, j) reads.
  template <class Int, class Visit>
  PARTITA_HOST_DEVICE void ForEachTap(Int i, Int j, Visit&& visit) const {
    const auto height = static_cast<Int>(rows.extent), width = static_cast<Int>(columns.extent);
    Int row = rows.First(i);
    for (Int a = 0; a < static_cast<Int>(rows.kernel); ++a) {
      Int column = columns.First(j);
      for (Int b = 0; b < static_cast<Int>(columns.kernel); ++b) {
        const bool inside = row >= 0 && row < height && column >= 0 && column < width;
        if (inside) visit(row * width + column);
        column += static_cast<Int>(columns.dilation.value);
      }
      row += static_cast<Int>(rows.dilation.value);
    }
  }

  // The offset in its plane of the first maximum of window (i, j), or -1 if the window is empty.
  // Not-a-number beats everything.
  template <class Int>
  PARTITA_HOST_DEVICE Int FirstMaximum(Int i, Int j, const float* x) const {
    Int best = -1;
    float most = 0;
    ForEachTap(i, j, [&](Int at) {
      const float value = ReadOnly(x + at);
      if (best >= 0 && !(most < value) && value == value) return;
      best = at;
      most = value;
    });
    return best;
  }

 private:
  template <class Int>
  PARTITA_HOST_DEVICE static PlanePlace<Int> PlaceOf(Int i, const Divisor& plane,
                                                     const Divisor& width) {
    const auto [index, rest] = plane.Divide(i);
    const auto [row, column] = width.Divide(rest);
    return {index, row, column};
  }
};

struct MaxPoolElement {
  PoolWindows windows;
  const float* x = nullptr;
  float* y = nullptr;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    visit(x, y);
  }
  template <class Int>
  PARTITA_HOST_DEVICE void operator()(Int i) const {
    const auto [channel, row, column] = windows.InY(i);
    const float* plane = x + channel * windows.x_plane.value;
    const Int best = windows.FirstMaximum(row, column, plane);
    y[i] = best < 0 ? 0.0f : ReadOnly(plane + best);
  }
};

// Position of each window's maximum, by which the gradient gathers.
struct MaxPoolPlaceElement {
  PoolWindows windows;
  const float* x = nullptr;
  int32_t* place = nullptr;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    visit(x, place);
  }
  template <class Int>
  PARTITA_HOST_DEVICE void operator()(Int i) const {
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
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    visit(place, dy, dx);
  }
  template <class Int>
  PARTITA_HOST_DEVICE void operator()(Int i) const {
    const auto [channel, row, column] = windows.InX(i);
    const Int at = row * static_cast<Int>(windows.x_columns.value) + column;
    const Int plane = channel * static_cast<Int>(windows.y_plane.value);
    const auto [top, bottom] = windows.rows.Reaching(row);
    const auto [left, right] = windows.columns.Reaching(column);
    float sum = 0;
    for (Int a = top; a < bottom; ++a) {
      for (Int b = left; b < right; ++b) {
        const Int window = plane + a * static_cast<Int>(windows.y_columns.value) + b;
        if (ReadOnly(place + window) == at) sum += ReadOnly(dy + window);
      }
    }
    dx[i] = sum;
  }
};

struct AveragePoolElement {
  PoolWindows windows;
  const float* x = nullptr;
  float* y = nullptr;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    visit(x, y);
  }
  template <class Int>
  PARTITA_HOST_DEVICE void operator()(Int i) const {
    const auto [channel, row, column] = windows.InY(i);
    const float* plane = x + channel * windows.x_plane.value;
    double sum = 0;
    windows.ForEachTap(row, column,
                       [&](Int at) { sum += static_cast<double>(ReadOnly(plane + at)); });
    const Int count = windows.rows.Counted(row) * windows.columns.Counted(column);
    y[i] = count == 0 ? 0.0f : static_cast<float>(sum / static_cast<double>(count));
  }
};

struct AveragePoolGradientElement {
  PoolWindows windows;
  const float* dy = nullptr;
  float* dx = nullptr;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    visit(dy, dx);
  }
  template <class Int>
  PARTITA_HOST_DEVICE void operator()(Int i) const {
    const auto [channel, row, column] = windows.InX(i);
    const Int plane = channel * static_cast<Int>(windows.y_plane.value);
    const WindowAxis &rows = windows.rows, &columns = windows.columns;
    const auto [top, bottom] = rows.Reaching(row);
    const auto [left, right] = columns.Reaching(column);
    float sum = 0;
    for (Int a = top; a < bottom; ++a) {
      if (!rows.Holds(a, row)) continue;
      const Int counted = rows.Counted(a);
      const float* const line = dy + (plane + a * static_cast<Int>(windows.y_columns.value));
      for (Int b = left; b < right; ++b) {
        const Int count = columns.Holds(b, column) ? counted * columns.Counted(b) : 0;
        if (count == 0) continue;
        sum += ReadOnly(line + b) / static_cast<float>(count);
      }
    }
    dx[i] = sum;
  }
};

}  // namespace partita
