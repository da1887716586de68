#pragma once

#include "runtime/backend/cuda/elements/strided_index.h"

// Movement of elements. See elementwise_elements.h for what a functor is.

namespace partita {

// y[i] = factor * x[i].
struct CopyElement {
  const float* x = nullptr;
  float* y = nullptr;
  float factor = 1;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitVectors(Visit&& visit) {
    visit(x, y);
  }
  // Whether y already is what it is to be: x itself.
  bool is_done() const { return x == y && factor == 1; }
  using Operands = float;
  template <class Int>
  PARTITA_HOST_DEVICE Operands Load(Int i) const {
    return x[i];
  }
  template <class Int>
  PARTITA_HOST_DEVICE void Store(Int i, float value) const {
    y[i] = factor * value;
  }
};

// y[i] = factor * x[from(i)]; y does not lie over x.
struct GatherElement {
  const float* x = nullptr;
  float* y = nullptr;
  StridedIndex from;
  float factor = 1;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    visit(x, y);
  }
  using Operands = float;
  template <class Int>
  PARTITA_HOST_DEVICE Operands Load(Int i) const {
    return ReadOnly(x + from(i));
  }
  template <class Int>
  PARTITA_HOST_DEVICE void Store(Int i, float value) const {
    y[i] = factor * value;
  }
};

// y[to(i)] = x[i]; no two elements go to one place.
struct ScatterElement {
  const float* x = nullptr;
  float* y = nullptr;
  StridedIndex to;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    visit(x, y);
  }
  using Operands = float;
  template <class Int>
  PARTITA_HOST_DEVICE Operands Load(Int i) const {
    return ReadOnly(x + i);
  }
  template <class Int>
  PARTITA_HOST_DEVICE void Store(Int i, float value) const {
    y[to(i)] = value;
  }
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
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    visit(x, y);
  }
  template <class Int>
  PARTITA_HOST_DEVICE void operator()(Int i) const {
    int64_t at = 0, stride = 1;
    Int rest = i;
    bool inside = true;
    for (int d = rank - 1; d >= 0; --d) {
      const auto [quotient, index] = y_extent[d].Divide(rest);
      const int64_t j = index - before[d];
      inside = inside && j >= 0 && j < x_extent[d];
      at += j * stride;
      stride *= x_extent[d];
      rest = quotient;
    }
    y[i] = inside ? ReadOnly(x + at) : value;
  }
};

}  // namespace partita
