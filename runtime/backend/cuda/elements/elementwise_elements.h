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
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    visit(y);
  }
  template <class Int>
  PARTITA_HOST_DEVICE void operator()(Int i) const {
    y[i] = value;
  }
};

// ReLU of one element; NaN stays NaN.
struct ReluElement {
  const float* x = nullptr;
  float* y = nullptr;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitVectors(Visit&& visit) {
    visit(x, y);
  }
  using Operands = float;
  template <class Int>
  PARTITA_HOST_DEVICE Operands Load(Int i) const {
    return x[i];
  }
  template <class Int>
  PARTITA_HOST_DEVICE void Store(Int i, float value) const {
    y[i] = value < 0 ? 0.0f : value;
  }
};

struct ReluGradientElement {
  const float* y = nullptr;
  const float* dy = nullptr;
  float* dx = nullptr;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitVectors(Visit&& visit) {
    visit(y, dy, dx);
  }
  using Operands = FloatPair;
  template <class Int>
  PARTITA_HOST_DEVICE Operands Load(Int i) const {
    return {y[i], dy[i]};
  }
  template <class Int>
  PARTITA_HOST_DEVICE void Store(Int i, const Operands& of) const {
    dx[i] = of.first > 0 ? of.second : 0.0f;
  }
};

// alpha * x + beta; `scale`, where there is one, is a number in memory that multiplies alpha.
struct ScaleElement {
  const float* x = nullptr;
  const float* scale = nullptr;
  float* y = nullptr;
  float alpha = 1, beta = 0;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitVectors(Visit&& visit) {
    visit(x, y);
  }
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    VisitVectors(visit);
    visit(scale);
  }
  using Operands = float;
  template <class Int>
  PARTITA_HOST_DEVICE Operands Load(Int i) const {
    return x[i];
  }
  template <class Int>
  PARTITA_HOST_DEVICE void Store(Int i, float value) const {
    const float factor = scale == nullptr ? alpha : alpha * ReadOnly(scale);
    y[i] = factor * value + beta;
  }
};

enum class BinaryOp : uint8_t { kAdd, kSubtract, kMultiply };

PARTITA_HOST_DEVICE inline float ResultOf(BinaryOp op, const FloatPair& of) {
  const auto [p, q] = of;
  return op == BinaryOp::kAdd ? p + q : op == BinaryOp::kSubtract ? p - q : p * q;
}

// A binary operator on operands of one shape.
struct BinaryInOrderElement {
  BinaryOp op = BinaryOp::kAdd;
  const float* a = nullptr;
  const float* b = nullptr;
  float* y = nullptr;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitVectors(Visit&& visit) {
    visit(a, b, y);
  }
  using Operands = FloatPair;
  template <class Int>
  PARTITA_HOST_DEVICE Operands Load(Int i) const {
    return {a[i], b[i]};
  }
  template <class Int>
  PARTITA_HOST_DEVICE void Store(Int i, const Operands& of) const {
    y[i] = ResultOf(op, of);
  }
};

struct BinaryElement {
  BinaryOp op = BinaryOp::kAdd;
  const float* a = nullptr;
  const float* b = nullptr;
  float* y = nullptr;
  StridedIndex a_at, b_at;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    visit(a, b, y);
  }
  using Operands = FloatPair;
  template <class Int>
  PARTITA_HOST_DEVICE Operands Load(Int i) const {
    return {a[a_at(i)], b[b_at(i)]};
  }
  template <class Int>
  PARTITA_HOST_DEVICE void Store(Int i, const Operands& of) const {
    y[i] = ResultOf(op, of);
  }
};

// Bias and ReLU in place: y[n, c, inner] += bias[c] where there is a bias, then maybe a ReLU.
struct BiasElement {
  const float* bias = nullptr;
  float* y = nullptr;
  ElementChannels channels;
  bool relu = false;
  bool suits_vectors() const { return channels.HoldInTwoRows(4); }
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitVectors(Visit&& visit) {
    visit(y);
  }
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    VisitVectors(visit);
    visit(bias);
  }
  using Operands = float;
  template <class Int>
  PARTITA_HOST_DEVICE Operands Load(Int i) const {
    return y[i];
  }
  template <class Int>
  PARTITA_HOST_DEVICE void Store(Int i, float value) const {
    if (bias != nullptr) value += ReadOnly(bias + channels.Of(i));
    StoreSum(i, value);
  }
  template <int kCount, class Int>
  PARTITA_HOST_DEVICE void StoreVector(Int i, const float* of) const {
    if (bias == nullptr) {
      for (int k = 0; k < kCount; ++k) StoreSum(i + k, of[k]);
      return;
    }
    const auto at = channels.From(i);
    const float first = ReadOnly(bias + at.first), second = ReadOnly(bias + at.second);
    for (int k = 0; k < kCount; ++k) StoreSum(i + k, of[k] + (k < at.of_first ? first : second));
  }

 private:
  template <class Int>
  PARTITA_HOST_DEVICE void StoreSum(Int i, float sum) const {
    y[i] = relu && sum < 0 ? 0.0f : sum;
  }
};

}  // namespace partita
