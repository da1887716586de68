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

// Maximum pooling of whole planes, each of which fits into a block's shared memory: x is read once,
// and a gradient is added up where it is fast. Windows that share no element form a class; classes
// take turns, so that the order in which an element's gradients are added is fixed. What is chosen
// is what PoolWindows::FirstMaximum chooses.
struct MaxPoolWork {
  PlaneAxis rows, columns;
  Divisor window_columns, windows_of_plane;  // columns, and all windows, of a plane
  Divisor class_columns, windows_of_class;   // the same of the largest class
  int x_plane = 1;                           // elements of a plane of x
  int planes_of_block = 1;
  int64_t planes = 0;
  const float* x = nullptr;
  const float* dy = nullptr;  // null: forward
  float* to = nullptr;        // y, or dx

  static constexpr int kMostPlaneBytes = 112 << 10;  // of shared memory
  // Shared memory of a block: planes of x, and of dx.
  int64_t shared_bytes() const {
    return int64_t{4} * planes_of_block * x_plane * (dy == nullptr ? 1 : 2);
  }

  PARTITA_HOST_DEVICE int classes() const { return rows.Apart() * columns.Apart(); }
  PARTITA_HOST_DEVICE int y_plane() const { return static_cast<int>(windows_of_plane.value); }

  // Position in its plane of the first maximum of window (i, j); -1 where it is empty.
  PARTITA_HOST_DEVICE int FirstMaximum(int i, int j, const float* plane) const {
    int best = -1;
    float most = 0;
    const int top = i * rows.stride - rows.pad, left = j * columns.stride - columns.pad;
    for (int a = 0; a < rows.kernel; ++a) {
      const int row = top + a * rows.dilation;
      if (row < 0 || row >= rows.extent) continue;
      for (int b = 0; b < columns.kernel; ++b) {
        const int column = left + b * columns.dilation;
        if (column < 0 || column >= columns.extent) continue;
        const int at = row * columns.extent + column;
        const float value = plane[at];
        if (best >= 0 && !(most < value) && value == value) continue;
        best = at;
        most = value;
      }
    }
    return best;
  }

  // Value of window w of all windows of a block's planes.
  PARTITA_HOST_DEVICE float Maximum(int w, const float* x_planes) const {
    const int p = Quotient(windows_of_plane, w), of_plane = w - p * y_plane();
    const int i = Quotient(window_columns, of_plane);
    const float* plane = x_planes + p * x_plane;
    const int best = FirstMaximum(i, of_plane - i * columns.count, plane);
    return best < 0 ? 0.0f : plane[best];
  }

  // Adds the gradient of window k of a class of all planes of a block.
  PARTITA_HOST_DEVICE void AddGradient(int window_class, int k, const float* x_planes,
                                       const float* dy_planes, float* dx_planes) const {
    const int p = Quotient(windows_of_class, k);
    const int of_plane = k - p * static_cast<int>(windows_of_class.value);
    const int row = Quotient(class_columns, of_plane);
    const int column = of_plane - row * static_cast<int>(class_columns.value);
    const int first_row = window_class / columns.Apart();
    const int i = first_row + row * rows.Apart();
    const int j = window_class - first_row * columns.Apart() + column * columns.Apart();
    if (i >= rows.count || j >= columns.count) return;
    const int best = FirstMaximum(i, j, x_planes + p * x_plane);
    if (best < 0) return;
    dx_planes[p * x_plane + best] += dy_planes[p * y_plane() + i * columns.count + j];
  }

 private:
  PARTITA_HOST_DEVICE static int Quotient(const Divisor& divisor, int n) {
    return static_cast<int>(divisor.Quotient(n));
  }
};

}  // namespace partita
