#pragma once

#include "runtime/backend/cuda/elements/strided_index.h"

// Movement of elements. See elementwise_elements.h for what a functor is.

namespace partita {

// y[i] = factor * x[from(i)].
struct GatherElement {
  const float* x = nullptr;
  float* y = nullptr;
  StridedIndex from;
  float factor = 1;
  using Operands = float;
  PARTITA_HOST_DEVICE Operands Load(int64_t i) const { return x[from(i)]; }
  PARTITA_HOST_DEVICE void Store(int64_t i, float value) const { y[i] = factor * value; }
};

// y[to(i)] = x[i]; no two elements go to one place.
struct ScatterElement {
  const float* x = nullptr;
  float* y = nullptr;
  StridedIndex to;
  using Operands = float;
  PARTITA_HOST_DEVICE Operands Load(int64_t i) const { return x[i]; }
  PARTITA_HOST_DEVICE void Store(int64_t i, float value) const { y[to(i)] = value; }
};

// x inside a border of a constant, or what is left of it where `before` is negative: index j of y
// along dimension d is index j - before[d] of x, which may lie outside.
struct BorderElement {
  static constexpr int kMaxRank = StridedIndex::kMaxRank;
  const float* x = nullptr;
  float* y = nullptr;
  float value = 0;
  int rank = 0;
  Divisor y_extent[kMaxRank] = {};
  int64_t x_extent[kMaxRank] = {};
  int64_t before[kMaxRank] = {};
  PARTITA_HOST_DEVICE void operator()(int64_t i) const {
    int64_t rest = i, at = 0, stride = 1;
    bool inside = true;
    for (int d = rank - 1; d >= 0; --d) {
      const int64_t quotient = y_extent[d].Quotient(rest);
      const int64_t j = rest - quotient * y_extent[d].value - before[d];
      inside = inside && j >= 0 && j < x_extent[d];
      at += j * stride;
      stride *= x_extent[d];
      rest = quotient;
    }
    y[i] = inside ? x[at] : value;
  }
};

}  // namespace partita
