#pragma once

#include <cmath>

#include "runtime/backend/cuda/elements/strided_index.h"

// Local response normalisation. See elementwise_elements.h for what a functor is, graph/ops/lrn.h
// for what it means.

namespace partita {

// x[n, in_channels, inner] and y[n, out_channels, inner]. For result channel j with centre j + lead
// and base b_j = k + share * sum of x^2 over its window: y_j = x_centre * b_j^-beta.
struct LrnWindows {
  int64_t in_channels = 1, out_channels = 1, size = 1;
  int64_t pad = 0, lead = 0;           // the window of j begins at j - pad
  Divisor inner, in_plane, out_plane;  // inner extent; channels * inner
  float k = 1, beta = 0, share = 0;    // share: alpha / size

  // The base of channel j, from the first element of its sample at its inner position.
  PARTITA_HOST_DEVICE float Base(const float* x, int64_t j) const {
    const int64_t first = j - pad < 0 ? 0 : j - pad;
    const int64_t last = j - pad + size > in_channels ? in_channels : j - pad + size;
    float sum = 0;
    for (int64_t c = first; c < last; ++c) {
      const float value = ReadOnly(x + c * inner.value);
      sum += value * value;
    }
    return k + share * sum;
  }
};

struct LrnElement {
  LrnWindows windows;
  const float* x = nullptr;
  float* y = nullptr;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    visit(x, y);
  }
  template <class Int>
  PARTITA_HOST_DEVICE void operator()(Int i) const {
    const auto [row, inner] = windows.inner.Divide(i);
    const Int sample = windows.out_plane.Quotient(i);
    const int64_t j = row - sample * windows.out_channels;
    const float* column = x + sample * windows.in_plane.value + inner;
    y[i] = ReadOnly(column + (j + windows.lead) * windows.inner.value) *
           powf(windows.Base(column, j), -windows.beta);
  }
};

// Contribution of each result channel to the gradients of all of its window, to be multiplied by x:
// shared[j] = dy_j * x_centre * (b^-beta)'(b_j) * 2 * share; and its contribution to its centre:
// own[j] = dy_j
// * b_j^-beta.
struct LrnShareElement {
  LrnWindows windows;
  const float* x = nullptr;
  const float* dy = nullptr;
  float* shared = nullptr;
  float* own = nullptr;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    visit(x, dy, shared, own);
  }
  template <class Int>
  PARTITA_HOST_DEVICE void operator()(Int i) const {
    const auto [row, inner] = windows.inner.Divide(i);
    const Int sample = windows.out_plane.Quotient(i);
    const int64_t j = row - sample * windows.out_channels;
    const float* column = x + sample * windows.in_plane.value + inner;
    const float base = windows.Base(column, j);
    const float power = powf(base, -windows.beta);
    const float centre = ReadOnly(column + (j + windows.lead) * windows.inner.value);
    own[i] = dy[i] * power;
    shared[i] = -2 * windows.share * windows.beta * dy[i] * centre * power / base;
  }
};

struct LrnGradientElement {
  LrnWindows windows;
  const float* x = nullptr;
  const float* shared = nullptr;
  const float* own = nullptr;
  float* dx = nullptr;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    visit(x, shared, own, dx);
  }
  template <class Int>
  PARTITA_HOST_DEVICE void operator()(Int i) const {
    const auto [row, inner] = windows.inner.Divide(i);
    const Int sample = windows.in_plane.Quotient(i);
    const int64_t c = row - sample * windows.in_channels;
    const int64_t column = sample * windows.out_plane.value + inner;
    // The windows j with j - pad <= c < j - pad + size.
    const int64_t lowest = c + windows.pad - windows.size + 1;
    const int64_t first = lowest < 0 ? 0 : lowest;
    const int64_t last =
        c + windows.pad + 1 > windows.out_channels ? windows.out_channels : c + windows.pad + 1;
    float sum = 0;
    for (int64_t j = first; j < last; ++j) {
      sum += ReadOnly(shared + (column + j * windows.inner.value));
    }
    sum *= x[i];
    const int64_t centred = c - windows.lead;
    if (centred >= 0 && centred < windows.out_channels) {
      sum += own[column + centred * windows.inner.value];
    }
    dx[i] = sum;
  }
};

}  // namespace partita
