#pragma once

#include "runtime/backend/cuda/elements/strided_index.h"

namespace partita {

// One dimension of a plane's windows, in 32-bit arithmetic.
struct PlaneAxis {
  int extent = 1, count = 1;  // extent of x, number of windows
  int kernel = 1, stride = 1, dilation = 1, pad = 0;

  // Windows so far from each other share no element.
  PARTITA_HOST_DEVICE int Apart() const { return (dilation * (kernel - 1) + stride) / stride; }
};

// Maximum pooling of whole planes, which fit into a block's shared memory: x is read once, and its
// gradient, which takes x's place when every window's maximum is known, is added up there. Windows
// that share no element form a class; classes take turns, so that the order in which an element's
// gradients are added is fixed. What is chosen is what PoolWindows::FirstMaximum chooses.
struct MaxPoolWork {
  using Place = uint16_t;  // of a maximum in its plane
  static constexpr Place kNone = 0xffff;
  PlaneAxis rows, columns;
  Divisor window_columns, windows_of_plane;  // columns, and all windows, of a plane
  Divisor class_columns, windows_of_class;   // the same of the largest class
  int x_plane = 1;                           // elements of a plane of x
  int planes_of_block = 1;
  bool gradient = false;
  int64_t planes = 0;
  static constexpr int64_t kMostBlocks = 1 << 20;
  uint32_t blocks = 0;  // of threads, of the launch
  const float* x = nullptr;
  const float* dy = nullptr;
  float* to = nullptr;  // y, or dx
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    visit(x, dy, to);
  }

  // Shared memory that a block may have on each GPU from sm_80 on.
  static constexpr int kMostPlaneBytes = 99 << 10;
  // Shared memory of a block: its planes of x, then of dx; of a gradient dy, and the places.
  int64_t shared_bytes() const {
    const int64_t of_windows = !gradient ? 0 : int64_t{6} * windows_of_plane.value;
    return planes_of_block * (int64_t{4} * x_plane + of_windows);
  }
  // Extent of all windows along both dimensions if kernels are made for it, else 0.
  int fixed_kernel() const {
    const bool fixed = rows.kernel == columns.kernel && rows.dilation == 1 &&
                       columns.dilation == 1 && (rows.kernel == 2 || rows.kernel == 3);
    return fixed ? rows.kernel : 0;
  }

  PARTITA_HOST_DEVICE int classes() const { return rows.Apart() * columns.Apart(); }
  PARTITA_HOST_DEVICE int y_plane() const { return static_cast<int>(windows_of_plane.value); }

  // Position in its plane of the first maximum of window (i, j), or kNone where it is empty, and its
  // value. kKernel: fixed_kernel().
  struct Maximum {
    Place place;
    float value;
  };
  template <int kKernel>
  PARTITA_HOST_DEVICE Maximum FirstMaximum(int i, int j, const float* plane) const {
    int best = -1;
    float most = 0;
    const int height = kKernel > 0 ? kKernel : rows.kernel;
    const int width = kKernel > 0 ? kKernel : columns.kernel;
    const int row_step = kKernel > 0 ? 1 : rows.dilation;
    const int column_step = kKernel > 0 ? 1 : columns.dilation;
    const int top = i * rows.stride - rows.pad, left = j * columns.stride - columns.pad;
    for (int a = 0; a < height; ++a) {
      const int row = top + a * row_step;
      if (row < 0 || row >= rows.extent) continue;
      for (int b = 0; b < width; ++b) {
        const int column = left + b * column_step;
        if (column < 0 || column >= columns.extent) continue;
        const int at = row * columns.extent + column;
        const float value = plane[at];
        if (best >= 0 && !(most < value) && value == value) continue;
        best = at;
        most = value;
      }
    }
    return {best < 0 ? kNone : static_cast<Place>(best), most};
  }

  // The maximum of window w of all windows of a block's planes.
  template <int kKernel>
  PARTITA_HOST_DEVICE Maximum MaximumOf(int w, const float* x_planes) const {
    const int p = Quotient(windows_of_plane, w), of_plane = w - p * y_plane();
    const int i = Quotient(window_columns, of_plane);
    return FirstMaximum<kKernel>(i, of_plane - i * columns.count, x_planes + p * x_plane);
  }

  // Adds the gradient of window k of a class of all planes of a block.
  PARTITA_HOST_DEVICE void AddGradient(int window_class, int k, const Place* places,
                                       const float* dy_planes, float* dx_planes) const {
    const int p = Quotient(windows_of_class, k);
    const int of_plane = k - p * static_cast<int>(windows_of_class.value);
    const int row = Quotient(class_columns, of_plane);
    const int column = of_plane - row * static_cast<int>(class_columns.value);
    const int first_row = window_class / columns.Apart();
    const int i = first_row + row * rows.Apart();
    const int j = window_class - first_row * columns.Apart() + column * columns.Apart();
    if (i >= rows.count || j >= columns.count) return;
    const int w = p * y_plane() + i * columns.count + j;
    if (places[w] != kNone) dx_planes[p * x_plane + places[w]] += dy_planes[w];
  }

 private:
  PARTITA_HOST_DEVICE static int Quotient(const Divisor& divisor, int n) {
    return static_cast<int>(divisor.Quotient(n));
  }
};

}  // namespace partita
