#pragma once

#include <cmath>

#include "runtime/backend/cuda/elements/strided_index.h"

// The pieces of softmax and cross-entropy over the rows of x[rows, classes] that write a tensor of
// x's shape (graph/ops/softmax.h, loss.h).

namespace partita {

// p = exp(x - m) / s.
struct RowProbability {
  const float *x = nullptr, *m = nullptr, *s = nullptr;
  Divisor classes;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    visit(x, m, s);
  }
  template <class Int>
  PARTITA_HOST_DEVICE Int Row(Int i) const {
    return classes.Quotient(i);
  }
  template <class Int>
  PARTITA_HOST_DEVICE float operator()(Int row, Int i) const {
    return expf(x[i] - ReadOnly(m + row)) / ReadOnly(s + row);
  }
};

struct SoftmaxElement {
  RowProbability p;
  float* y = nullptr;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    p.VisitPointers(visit);
    visit(y);
  }
  template <class Int>
  PARTITA_HOST_DEVICE void operator()(Int i) const {
    y[i] = p(p.Row(i), i);
  }
};

struct SoftmaxGradientElement {
  RowProbability p;
  const float *dy = nullptr, *t = nullptr;
  float* dx = nullptr;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    p.VisitPointers(visit);
    visit(dy, t, dx);
  }
  template <class Int>
  PARTITA_HOST_DEVICE void operator()(Int i) const {
    const Int row = p.Row(i);
    dx[i] = p(row, i) * (dy[i] - ReadOnly(t + row));
  }
};

struct LogSoftmaxElement {
  RowProbability p;
  float* y = nullptr;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    p.VisitPointers(visit);
    visit(y);
  }
  template <class Int>
  PARTITA_HOST_DEVICE void operator()(Int i) const {
    const Int row = p.Row(i);
    y[i] = p.x[i] - ReadOnly(p.m + row) - logf(ReadOnly(p.s + row));
  }
};

struct LogSoftmaxGradientElement {
  RowProbability p;
  const float *dy = nullptr, *t = nullptr;
  float* dx = nullptr;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    p.VisitPointers(visit);
    visit(dy, t, dx);
  }
  template <class Int>
  PARTITA_HOST_DEVICE void operator()(Int i) const {
    const Int row = p.Row(i);
    dx[i] = dy[i] - p(row, i) * ReadOnly(t + row);
  }
};

// `first_class`: the class of the rows' first element in the whole tensor.
struct CrossEntropyGradientElement {
  RowProbability p;
  const int32_t* labels = nullptr;
  const float* gradient = nullptr;  // gradient of the loss
  float* dx = nullptr;
  int64_t first_class = 0;
  float one_over_rows = 1;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    p.VisitPointers(visit);
    visit(labels, gradient, dx);
  }
  template <class Int>
  PARTITA_HOST_DEVICE void operator()(Int i) const {
    const Int row = p.Row(i);
    const bool is_label = i - row * p.classes.value == ReadOnly(labels + row) - first_class;
    dx[i] = (p(row, i) - (is_label ? 1.0f : 0.0f)) * (one_over_rows * ReadOnly(gradient));
  }
};

}  // namespace partita
