#pragma once

#include <cmath>

#include "runtime/backend/cuda/elements/step_numbers.h"
#include "runtime/backend/cuda/elements/strided_index.h"

// Updates of weights and statistics (graph/ops/update.h).

namespace partita {

struct SgdElement {
  const float *w = nullptr, *g = nullptr, *v = nullptr;
  float *w_next = nullptr, *v_next = nullptr;
  StepNumbersArgument numbers;
  bool nesterov = false;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitVectors(Visit &&visit) {
    visit(w, g, v, w_next, v_next);
  }
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit &&visit) {
    VisitVectors(visit);
    visit(numbers);
  }
  struct Operands {
    float w, g, v;
  };
  template <class Int>
  PARTITA_HOST_DEVICE Operands Load(Int i) const {
    return {w[i], ReadOnly(g + i), v[i]};
  }
  template <class Int>
  PARTITA_HOST_DEVICE void Store(Int i, const Operands &of) const {
    StoreVector<1>(i, &of);
  }
  template <int kCount, class Int>
  PARTITA_HOST_DEVICE void StoreVector(Int i, const Operands *of) const {
    const StepNumbers n = *numbers;
    float weight[kCount], velocity[kCount];
    for (int k = 0; k < kCount; ++k) {
      const float gradient = of[k].g + n.decay * of[k].w;
      velocity[k] = n.momentum * of[k].v + gradient;
      const float direction = nesterov ? gradient + n.momentum * velocity[k] : velocity[k];
      weight[k] = of[k].w - n.rate * direction;
    }
    for (int k = 0; k < kCount; ++k) w_next[i + k] = weight[k];
    for (int k = 0; k < kCount; ++k) v_next[i + k] = velocity[k];
  }
};

struct AdamElement {
  const float *w = nullptr, *g = nullptr, *m = nullptr, *v = nullptr;
  float *w_next = nullptr, *m_next = nullptr, *v_next = nullptr;
  StepNumbersArgument numbers;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitVectors(Visit &&visit) {
    visit(w, g, m, v, w_next, m_next, v_next);
  }
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit &&visit) {
    VisitVectors(visit);
    visit(numbers);
  }
  struct Operands {
    float w, g, m, v;
  };
  template <class Int>
  PARTITA_HOST_DEVICE Operands Load(Int i) const {
    return {w[i], ReadOnly(g + i), m[i], v[i]};
  }
  template <class Int>
  PARTITA_HOST_DEVICE void Store(Int i, const Operands &of) const {
    StoreVector<1>(i, &of);
  }
  template <int kCount, class Int>
  PARTITA_HOST_DEVICE void StoreVector(Int i, const Operands *of) const {
    const StepNumbers n = *numbers;
    float weight[kCount], first[kCount], second[kCount];
    for (int k = 0; k < kCount; ++k) {
      const float gradient = of[k].g + n.decay * of[k].w;
      first[k] = n.keep1 * of[k].m + n.take1 * gradient;
      second[k] = n.keep2 * of[k].v + n.take2 * gradient * gradient;
      weight[k] =
          of[k].w - n.rate * (first[k] * n.correct1) / (sqrtf(second[k] * n.correct2) + n.epsilon);
    }
    for (int k = 0; k < kCount; ++k) w_next[i + k] = weight[k];
    for (int k = 0; k < kCount; ++k) m_next[i + k] = first[k];
    for (int k = 0; k < kCount; ++k) v_next[i + k] = second[k];
  }
};

// Moves `old` towards the mean of a batch, or, where s2 is there, towards its variance.
struct RunningElement {
  const float *old = nullptr;
  const double *s1 = nullptr, *s2 = nullptr;
  float *next = nullptr;
  double one_over_n = 1, unbias = 1, momentum = 0;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit &&visit) {
    visit(old, s1, s2, next);
  }
  template <class Int>
  PARTITA_HOST_DEVICE void operator()(Int c) const {
    const double mean = s1[c] * one_over_n;
    const double sample = s2 == nullptr ? mean : (s2[c] * one_over_n - mean * mean) * unbias;
    next[c] = static_cast<float>((1 - momentum) * static_cast<double>(old[c]) + momentum * sample);
  }
};

}  // namespace partita
