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
  struct Operands {
    float w, g, v;
  };
  PARTITA_HOST_DEVICE Operands Load(int64_t i) const { return {w[i], g[i], v[i]}; }
  PARTITA_HOST_DEVICE void Store(int64_t i, const Operands &of) const {
    const StepNumbers &n = *numbers;
    const float weight = of.w;
    const float gradient = of.g + n.decay * weight;
    const float velocity = n.momentum * of.v + gradient;
    const float direction = nesterov ? gradient + n.momentum * velocity : velocity;
    w_next[i] = weight - n.rate * direction;
    v_next[i] = velocity;
  }
};

struct AdamElement {
  const float *w = nullptr, *g = nullptr, *m = nullptr, *v = nullptr;
  float *w_next = nullptr, *m_next = nullptr, *v_next = nullptr;
  StepNumbersArgument numbers;
  struct Operands {
    float w, g, m, v;
  };
  PARTITA_HOST_DEVICE Operands Load(int64_t i) const { return {w[i], g[i], m[i], v[i]}; }
  PARTITA_HOST_DEVICE void Store(int64_t i, const Operands &of) const {
    const StepNumbers &n = *numbers;
    const float weight = of.w;
    const float gradient = of.g + n.decay * weight;
    const float first = n.keep1 * of.m + n.take1 * gradient;
    const float second = n.keep2 * of.v + n.take2 * gradient * gradient;
    w_next[i] = weight - n.rate * (first * n.correct1) / (sqrtf(second * n.correct2) + n.epsilon);
    m_next[i] = first;
    v_next[i] = second;
  }
};

// Moves `old` towards the mean of a batch, or, where s2 is there, towards its variance.
struct RunningElement {
  const float *old = nullptr;
  const double *s1 = nullptr, *s2 = nullptr;
  float *next = nullptr;
  double one_over_n = 1, unbias = 1, momentum = 0;
  PARTITA_HOST_DEVICE void operator()(int64_t c) const {
    const double mean = s1[c] * one_over_n;
    const double sample = s2 == nullptr ? mean : (s2[c] * one_over_n - mean * mean) * unbias;
    next[c] = static_cast<float>((1 - momentum) * static_cast<double>(old[c]) + momentum * sample);
  }
};

}  // namespace partita
