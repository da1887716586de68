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
  PARTITA_HOST_DEVICE int64_t Row(int64_t i) const { return classes.Quotient(i); }
  PARTITA_HOST_DEVICE float operator()(int64_t row, int64_t i) const {
    return expf(x[i] - m[row]) / s[row];
  }
};

struct SoftmaxElement {
  RowProbability p;
  float* y = nullptr;
  PARTITA_HOST_DEVICE void operator()(int64_t i) const { y[i] = p(p.Row(i), i); }
};

struct SoftmaxGradientElement {
  RowProbability p;
  const float *dy = nullptr, *t = nullptr;
  float* dx = nullptr;
  PARTITA_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t row = p.Row(i);
    dx[i] = p(row, i) * (dy[i] - t[row]);
  }
};

struct LogSoftmaxElement {
  RowProbability p;
  float* y = nullptr;
  PARTITA_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t row = p.Row(i);
    y[i] = p.x[i] - p.m[row] - logf(p.s[row]);
  }
};

struct LogSoftmaxGradientElement {
  RowProbability p;
  const float *dy = nullptr, *t = nullptr;
  float* dx = nullptr;
  PARTITA_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t row = p.Row(i);
    dx[i] = dy[i] - p(row, i) * t[row];
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
  PARTITA_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t row = p.Row(i);
    const bool is_label = i - row * p.classes.value == labels[row] - first_class;
    dx[i] = (p(row, i) - (is_label ? 1.0f : 0.0f)) * (one_over_rows * gradient[0]);
  }
};

}  // namespace partita
