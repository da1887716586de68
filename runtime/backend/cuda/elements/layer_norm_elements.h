#pragma once

#include <cstdint>

#include "runtime/backend/cuda/elements/norm_elements.h"
#include "runtime/backend/cuda/elements/reductions.h"

// Layer normalisation of x[rows, size] (graph/ops/layer_norm.h). The statistics are those of a
// batch normalisation whose channels are the rows.

namespace partita {

struct LayerNormElement {
  ChannelStatistics statistics;
  const float *x = nullptr, *gamma = nullptr, *beta = nullptr;
  float* y = nullptr;
  Divisor size;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    statistics.VisitPointers(visit);
    visit(x, gamma, beta, y);
  }
  template <class Int>
  PARTITA_HOST_DEVICE void operator()(Int i) const {
    const auto [row, column] = size.Divide(i);
    const double xhat = (static_cast<double>(x[i]) - statistics.Mean(row)) * statistics.Rstd(row);
    y[i] = static_cast<float>(xhat) * ReadOnly(gamma + column) + ReadOnly(beta + column);
  }
};

// Means over a row of the gradient of xhat, and of that times xhat.
struct LayerNormRowReduction {
  using Partial = PairOfSums;
  ChannelStatistics statistics;
  const float *x = nullptr, *gamma = nullptr, *dy = nullptr;
  int64_t size = 1;
  double *mean = nullptr, *along = nullptr;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    statistics.VisitPointers(visit);
    visit(x, gamma, dy, mean, along);
  }
  PARTITA_HOST_DEVICE Partial Start() const { return Partial(); }
  template <class Int>
  PARTITA_HOST_DEVICE void Add(Partial& sums, Int row, Int k) const {
    const int64_t i = row * size + k;
    const auto gradient = static_cast<double>(dy[i] * gamma[k]);
    sums.first += gradient;
    sums.second += gradient * (static_cast<double>(x[i]) - statistics.Mean(row));
  }
  PARTITA_HOST_DEVICE void Merge(Partial& sums, const Partial& other) const {
    sums.first += other.first;
    sums.second += other.second;
  }
  PARTITA_HOST_DEVICE void Store(int64_t row, const Partial& sums) const {
    mean[row] = sums.first / static_cast<double>(size);
    along[row] = sums.second * statistics.Rstd(row) / static_cast<double>(size);
  }
};

struct LayerNormGradientElement {
  ChannelStatistics statistics;
  const float *x = nullptr, *gamma = nullptr, *dy = nullptr;
  const double *mean = nullptr, *along = nullptr;
  float* dx = nullptr;
  Divisor size;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    statistics.VisitPointers(visit);
    visit(x, gamma, dy, mean, along, dx);
  }
  template <class Int>
  PARTITA_HOST_DEVICE void operator()(Int i) const {
    const auto [row, column] = size.Divide(i);
    const double rstd = statistics.Rstd(row);
    const double xhat = (static_cast<double>(x[i]) - statistics.Mean(row)) * rstd;
    const auto gradient = static_cast<double>(dy[i] * ReadOnly(gamma + column));
    dx[i] = static_cast<float>(rstd * (gradient - mean[row] - xhat * along[row]));
  }
};

// A row is a column of x: the sum of dy * xhat over the rows of x, which are the terms.
struct LayerNormGammaReduction {
  using Partial = double;
  ChannelStatistics statistics;
  const float *x = nullptr, *dy = nullptr;
  int64_t size = 1;
  float* dgamma = nullptr;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    statistics.VisitPointers(visit);
    visit(x, dy, dgamma);
  }
  PARTITA_HOST_DEVICE Partial Start() const { return 0; }
  template <class Int>
  PARTITA_HOST_DEVICE void Add(Partial& sum, Int column, Int k) const {
    const int64_t i = k * size + column;
    const double xhat = (static_cast<double>(x[i]) - statistics.Mean(k)) * statistics.Rstd(k);
    sum += static_cast<double>(dy[i]) * xhat;
  }
  PARTITA_HOST_DEVICE void Merge(Partial& sum, const Partial& other) const { sum += other; }
  PARTITA_HOST_DEVICE void Store(int64_t column, const Partial& sum) const {
    dgamma[column] = static_cast<float>(sum);
  }
};

}  // namespace partita
