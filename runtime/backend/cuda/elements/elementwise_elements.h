#pragma once

#include "runtime/backend/cuda/elements/strided_index.h"

// One output element each, in gather form: operator()(i) reads what element i needs and writes it,
// so that any order, and any number of threads, gives the same bits. An output may lie over the
// input of the same index.

namespace partita {

struct FillElement {
  float* y = nullptr;
  float value = 0;
  PARTITA_HOST_DEVICE void operator()(int64_t i) const { y[i] = value; }
};

// ReLU of one element; NaN stays NaN.
struct ReluElement {
  const float* x = nullptr;
  float* y = nullptr;
  PARTITA_HOST_DEVICE void operator()(int64_t i) const { y[i] = x[i] < 0 ? 0.0f : x[i]; }
};

struct ReluGradientElement {
  const float* y = nullptr;
  const float* dy = nullptr;
  float* dx = nullptr;
  PARTITA_HOST_DEVICE void operator()(int64_t i) const { dx[i] = y[i] > 0 ? dy[i] : 0.0f; }
};

// alpha * x + beta; `scale`, where there is one, is a number in memory that multiplies alpha.
struct ScaleElement {
  const float* x = nullptr;
  const float* scale = nullptr;
  float* y = nullptr;
  float alpha = 1, beta = 0;
  PARTITA_HOST_DEVICE void operator()(int64_t i) const {
    const float factor = scale == nullptr ? alpha : alpha * scale[0];
    y[i] = factor * x[i] + beta;
  }
};

enum class BinaryOp : uint8_t { kAdd, kSubtract, kMultiply };

struct BinaryElement {
  BinaryOp op = BinaryOp::kAdd;
  const float* a = nullptr;
  const float* b = nullptr;
  float* y = nullptr;
  StridedIndex a_at, b_at;
  PARTITA_HOST_DEVICE void operator()(int64_t i) const {
    const float p = a[a_at(i)], q = b[b_at(i)];
    y[i] = op == BinaryOp::kAdd ? p + q : op == BinaryOp::kSubtract ? p - q : p * q;
  }
};

// Bias and ReLU in place: y[n, c, inner] += bias[c] where there is a bias, then maybe a ReLU.
struct BiasElement {
  const float* bias = nullptr;
  float* y = nullptr;
  Divisor inner, channels;
  bool relu = false;
  PARTITA_HOST_DEVICE void operator()(int64_t i) const {
    float value = y[i];
    if (bias != nullptr) {
      const int64_t row = inner.Quotient(i);
      value += bias[row - channels.Quotient(row) * channels.value];
    }
    y[i] = relu && value < 0 ? 0.0f : value;
  }
};

}  // namespace partita
