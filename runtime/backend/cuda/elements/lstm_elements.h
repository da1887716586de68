#pragma once

#include <cstdint>

#include "runtime/backend/cuda/elements/unary_elements.h"

// Gates of an LSTM cell (graph/ops/lstm_gates.h), one unit each. All inputs of a unit are read
// before its results are written, which may lie over them.

namespace partita {

// One unit: its gates, and its states before and after. Of the first cell of a sequence b and c are
// null.
struct LstmUnit {
  float i, f, g, o, before, after, squashed;
  PARTITA_HOST_DEVICE LstmUnit(const float* a, const float* b, const float* c, int64_t k) {
    const bool is_first = b == nullptr;
    i = SigmoidOf(a[4 * k] + (is_first ? 0.0f : b[4 * k]));
    f = SigmoidOf(a[4 * k + 1] + (is_first ? 0.0f : b[4 * k + 1]));
    g = tanhf(a[4 * k + 2] + (is_first ? 0.0f : b[4 * k + 2]));
    o = SigmoidOf(a[4 * k + 3] + (is_first ? 0.0f : b[4 * k + 3]));
    before = is_first ? 0.0f : c[k];
    after = f * before + i * g;
    squashed = tanhf(after);
  }
  PARTITA_HOST_DEVICE float AfterGradient(float dh, float dc) const {
    return dc + dh * o * (1.0f - squashed * squashed);
  }
};

struct LstmGatesElement {
  const float *a = nullptr, *b = nullptr, *c = nullptr;
  float *h_after = nullptr, *c_after = nullptr;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    visit(a, b, c, h_after, c_after);
  }
  template <class Int>
  PARTITA_HOST_DEVICE void operator()(Int k) const {
    const LstmUnit unit(a, b, c, k);
    h_after[k] = unit.o * unit.squashed;
    c_after[k] = unit.after;
  }
};

// The gradients of the four gates of a unit.
struct LstmGatesGradientElement {
  const float *a = nullptr, *b = nullptr, *c = nullptr, *dh = nullptr, *dc = nullptr;
  float* dz = nullptr;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    visit(a, b, c, dh, dc, dz);
  }
  template <class Int>
  PARTITA_HOST_DEVICE void operator()(Int k) const {
    const LstmUnit unit(a, b, c, k);
    const float of_after = unit.AfterGradient(dh[k], dc[k]);
    const float of_output = dh[k] * unit.squashed;
    dz[4 * k] = of_after * unit.g * (unit.i * (1.0f - unit.i));
    dz[4 * k + 1] = of_after * unit.before * (unit.f * (1.0f - unit.f));
    dz[4 * k + 2] = of_after * unit.i * (1.0f - unit.g * unit.g);
    dz[4 * k + 3] = of_output * (unit.o * (1.0f - unit.o));
  }
};

struct LstmCellGradientElement {
  const float *a = nullptr, *b = nullptr, *c = nullptr, *dh = nullptr, *dc = nullptr;
  float* dc_before = nullptr;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    visit(a, b, c, dh, dc, dc_before);
  }
  template <class Int>
  PARTITA_HOST_DEVICE void operator()(Int k) const {
    const LstmUnit unit(a, b, c, k);
    dc_before[k] = unit.AfterGradient(dh[k], dc[k]) * unit.f;
  }
};

}  // namespace partita
