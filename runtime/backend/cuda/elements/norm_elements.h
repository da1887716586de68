#pragma once

#include <cmath>

#include "runtime/backend/cuda/elements/strided_index.h"

// Batch normalisation of x[n, c, inner] (graph/ops/batch_norm.h). What a channel needs is computed
// once for each channel in double, then applied to its elements in float.

namespace partita {

// Mean and reciprocal deviation of a channel, from the sums of a batch (in double) or from
// statistics that are given (mean and variance in float).
struct ChannelStatistics {
  const double *s1 = nullptr, *s2 = nullptr;
  const float *mean = nullptr, *variance = nullptr;
  double one_over_n = 1, epsilon = 0;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    visit(s1, s2, mean, variance);
  }

  PARTITA_HOST_DEVICE double Mean(int64_t c) const {
    return s1 != nullptr ? s1[c] * one_over_n : static_cast<double>(mean[c]);
  }
  PARTITA_HOST_DEVICE double Rstd(int64_t c) const {
    double value = 0;
    if (s1 != nullptr) {
      const double m = Mean(c);
      value = s2[c] * one_over_n - m * m;
      if (value < 0) value = 0;  // rounding
    } else {
      value = static_cast<double>(variance[c]);
    }
    return 1 / sqrt(value + epsilon);
  }
};

// Affine map of a channel's elements: (x - mean) * scale + shift.
struct ChannelMap {
  float mean = 0, scale = 1, shift = 0;
  // A map that is not written while the kernel runs.
  PARTITA_HOST_DEVICE static ChannelMap Read(const ChannelMap* map) {
    return {ReadOnly(&map->mean), ReadOnly(&map->scale), ReadOnly(&map->shift)};
  }
  PARTITA_HOST_DEVICE float operator()(float x) const { return (x - mean) * scale + shift; }
};

// A null `beta` counts as 0; without a mean (gradients of the affine form) the mean is 0.
struct ChannelMapElement {
  ChannelStatistics statistics;
  const float *gamma = nullptr, *beta = nullptr;
  bool centred = true;
  ChannelMap* map = nullptr;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    statistics.VisitPointers(visit);
    visit(gamma, beta, map);
  }
  template <class Int>
  PARTITA_HOST_DEVICE void operator()(Int c) const {
    ChannelMap result;
    result.mean = centred ? static_cast<float>(statistics.Mean(c)) : 0.0f;
    result.scale = static_cast<float>(statistics.Rstd(c) * static_cast<double>(gamma[c]));
    result.shift = beta == nullptr ? 0.0f : beta[c];
    map[c] = result;
  }
};

struct NormalizeElement {
  const ChannelMap* map = nullptr;
  const float* x = nullptr;
  float* y = nullptr;
  ElementChannels channels;
  bool suits_vectors() const { return channels.HoldInTwoRows(4); }
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitVectors(Visit&& visit) {
    visit(x, y);
  }
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    VisitVectors(visit);
    visit(map);
  }
  using Operands = float;
  template <class Int>
  PARTITA_HOST_DEVICE Operands Load(Int i) const {
    return x[i];
  }
  template <class Int>
  PARTITA_HOST_DEVICE void Store(Int i, float value) const {
    y[i] = ChannelMap::Read(map + channels.Of(i))(value);
  }
  template <int kCount, class Int>
  PARTITA_HOST_DEVICE void StoreVector(Int i, const float* of) const {
    const auto at = channels.From(i);
    const ChannelMap first = ChannelMap::Read(map + at.first);
    const ChannelMap second = ChannelMap::Read(map + at.second);
    for (int k = 0; k < kCount; ++k) y[i + k] = (k < at.of_first ? first : second)(of[k]);
  }
};

// dx = a * dy - b - (x - mean) * c.
struct ChannelGradient {
  float mean = 0, a = 0, b = 0, c = 0;
  // One that is not written while the kernel runs.
  PARTITA_HOST_DEVICE static ChannelGradient Read(const ChannelGradient* from) {
    return {ReadOnly(&from->mean), ReadOnly(&from->a), ReadOnly(&from->b), ReadOnly(&from->c)};
  }
  PARTITA_HOST_DEVICE float operator()(float x, float dy) const {
    return a * dy - b - (x - mean) * c;
  }
};

struct ChannelGradientElement {
  ChannelStatistics statistics;
  const float *gamma = nullptr, *t1 = nullptr, *t2 = nullptr;
  ChannelGradient* gradient = nullptr;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    statistics.VisitPointers(visit);
    visit(gamma, t1, t2, gradient);
  }
  template <class Int>
  PARTITA_HOST_DEVICE void operator()(Int c) const {
    const double rstd = statistics.Rstd(c), n = statistics.one_over_n;
    const double a = static_cast<double>(gamma[c]) * rstd;
    ChannelGradient result;
    result.mean = static_cast<float>(statistics.Mean(c));
    result.a = static_cast<float>(a);
    result.b = static_cast<float>(a * static_cast<double>(t1[c]) * n);
    result.c = static_cast<float>(a * rstd * static_cast<double>(t2[c]) * n);
    gradient[c] = result;
  }
};

struct NormalizeGradientElement {
  const ChannelGradient* gradient = nullptr;
  const float *x = nullptr, *dy = nullptr;
  float* dx = nullptr;
  ElementChannels channels;
  bool suits_vectors() const { return channels.HoldInTwoRows(4); }
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitVectors(Visit&& visit) {
    visit(x, dy, dx);
  }
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    VisitVectors(visit);
    visit(gradient);
  }
  struct Operands {
    float x, dy;
  };
  template <class Int>
  PARTITA_HOST_DEVICE Operands Load(Int i) const {
    return {x[i], dy[i]};
  }
  template <class Int>
  PARTITA_HOST_DEVICE void Store(Int i, const Operands& of) const {
    dx[i] = ChannelGradient::Read(gradient + channels.Of(i))(of.x, of.dy);
  }
  template <int kCount, class Int>
  PARTITA_HOST_DEVICE void StoreVector(Int i, const Operands* of) const {
    const auto at = channels.From(i);
    const ChannelGradient first = ChannelGradient::Read(gradient + at.first);
    const ChannelGradient second = ChannelGradient::Read(gradient + at.second);
    for (int k = 0; k < kCount; ++k) {
      dx[i + k] = (k < at.of_first ? first : second)(of[k].x, of[k].dy);
    }
  }
};

}  // namespace partita
