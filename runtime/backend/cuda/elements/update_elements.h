#pragma once

#include <cmath>

#include "runtime/backend/cuda/elements/strided_index.h"

// Updates of weights and statistics (graph/ops/update.h).

namespace partita {

struct SgdElement {
  const float *w = nullptr, *g = nullptr, *v = nullptr;
  float *w_next = nullptr, *v_next = nullptr;
  float rate = 0, momentum = 0, decay = 0;
  bool nesterov = false;
  PARTITA_HOST_DEVICE void operator()(int64_t i) const {
    const float weight = w[i];
    const float gradient = g[i] + decay * weight;
    const float velocity = momentum * v[i] + gradient;
    const float direction = nesterov ? gradient + momentum * velocity : velocity;
    w_next[i] = weight - rate * direction;
    v_next[i] = velocity;
  }
};

struct AdamElement {
  const float *w = nullptr, *g = nullptr, *m = nullptr, *v = nullptr;
  float *w_next = nullptr, *m_next = nullptr, *v_next = nullptr;
  float rate = 0, decay = 0, epsilon = 0;
  float keep1 = 0, take1 = 0, keep2 = 0, take2 = 0;
  float correct1 = 1, correct2 = 1;  // of the bias towards 0 in the first steps
  PARTITA_HOST_DEVICE void operator()(int64_t i) const {
    const float weight = w[i];
    const float gradient = g[i] + decay * weight;
    const float first = keep1 * m[i] + take1 * gradient;
    const float second = keep2 * v[i] + take2 * gradient * gradient;
    w_next[i] = weight - rate * (first * correct1) / (sqrtf(second * correct2) + epsilon);
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
