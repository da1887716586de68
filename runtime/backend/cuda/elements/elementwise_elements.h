#pragma once

#include "runtime/backend/cuda/elements/strided_index.h"

// One output element each, in gather form: operator()(i), or Load and Store (read_first.h), read
// what element i needs and write it, so that any order, and any number of threads, gives the same
// bits. An output may lie over the input of the same index.

namespace partita {

// Two operands.
struct FloatPair {
  float first, second;
};

struct FillElement {
  float* y = nullptr;
  float value = 0;
  PARTITA_HOST_DEVICE void operator()(int64_t i) const { y[i] = value; }
};

// ReLU of one element; NaN stays NaN.
struct ReluElement {
  const float* x = nullptr;
  float* y = nullptr;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitVectors(Visit&& visit) {
    visit(x);
    visit(y);
  }
  using Operands = float;
  PARTITA_HOST_DEVICE Operands Load(int64_t i) const { return x[i]; }
  PARTITA_HOST_DEVICE void Store(int64_t i, float value) const { y[i] = value < 0 ? 0.0f : value; }
  template <int kCount>
  PARTITA_HOST_DEVICE void StoreVector(int64_t i, const float* of) const {
    for (int k = 0; k < kCount; ++k) Store(i + k, of[k]);
  }
};

struct ReluGradientElement {
  const float* y = nullptr;
  const float* dy = nullptr;
  float* dx = nullptr;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitVectors(Visit&& visit) {
    visit(y);
    visit(dy);
    visit(dx);
  }
  using Operands = FloatPair;
  PARTITA_HOST_DEVICE Operands Load(int64_t i) const { return {y[i], dy[i]}; }
  PARTITA_HOST_DEVICE void Store(int64_t i, const Operands& of) const {
    dx[i] = of.first > 0 ? of.second : 0.0f;
  }
  template <int kCount>
  PARTITA_HOST_DEVICE void StoreVector(int64_t i, const Operands* of) const {
    for (int k = 0; k < kCount; ++k) Store(i + k, of[k]);
  }
};

// alpha * x + beta; `scale`, where there is one, is a number in memory that multiplies alpha.
struct ScaleElement {
  const float* x = nullptr;
  const float* scale = nullptr;
  float* y = nullptr;
  float alpha = 1, beta = 0;
  using Operands = float;
  PARTITA_HOST_DEVICE Operands Load(int64_t i) const { return x[i]; }
  PARTITA_HOST_DEVICE void Store(int64_t i, float value) const {
    const float factor = scale == nullptr ? alpha : alpha * scale[0];
    y[i] = factor * value + beta;
  }
};

enum class BinaryOp : uint8_t { kAdd, kSubtract, kMultiply };

struct BinaryElement {
  BinaryOp op = BinaryOp::kAdd;
  const float* a = nullptr;
  const float* b = nullptr;
  float* y = nullptr;
  StridedIndex a_at, b_at;
  using Operands = FloatPair;
  PARTITA_HOST_DEVICE Operands Load(int64_t i) const { return {a[a_at(i)], b[b_at(i)]}; }
  PARTITA_HOST_DEVICE void Store(int64_t i, const Operands& of) const {
    const auto [p, q] = of;
    y[i] = op == BinaryOp::kAdd ? p + q : op == BinaryOp::kSubtract ? p - q : p * q;
  }
};

// Bias and ReLU in place: y[n, c, inner] += bias[c] where there is a bias, then maybe a ReLU.
struct BiasElement {
  const float* bias = nullptr;
  float* y = nullptr;
  Divisor inner, channels;
  bool relu = false;
  using Operands = float;
  PARTITA_HOST_DEVICE Operands Load(int64_t i) const { return y[i]; }
  PARTITA_HOST_DEVICE void Store(int64_t i, float value) const {
    if (bias != nullptr) {
      const int64_t row = inner.Quotient(i);
      value += bias[row - channels.Quotient(row) * channels.value];
    }
    y[i] = relu && value < 0 ? 0.0f : value;
  }
};

}  // namespace partita
