#pragma once

#include <cmath>
#include <cstdint>

#include "runtime/backend/cuda/elements/reductions.h"

// Layer normalisation of x[rows, size] (graph/ops/layer_norm.h). What a row needs is computed once
// for each row, in double.

namespace partita {

// Mean of a row, and the reciprocal of its deviation.
struct RowStatistics {
  double mean = 0, rstd = 1;
  // (x - mean) * rstd, of statistics that are not written while the kernel runs.
  PARTITA_HOST_DEVICE static double Normalized(const RowStatistics* of_row, float x) {
    return (static_cast<double>(x) - ReadOnly(&of_row->mean)) * ReadOnly(&of_row->rstd);
  }
};

// The statistics of each row.
struct RowStatisticsReduction {
  using Partial = PairOfSums;
  const float* x = nullptr;
  int64_t size = 1;
  double one_over_size = 1, epsilon = 0;
  RowStatistics* statistics = nullptr;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    visit(x, statistics);
  }
  PARTITA_HOST_DEVICE Partial Start() const { return Partial(); }
  using Operands = float;
  template <class Int>
  PARTITA_HOST_DEVICE Operands Load(Int row, Int k) const {
    return x[row * static_cast<Int>(size) + k];
  }
  PARTITA_HOST_DEVICE void Add(Partial& sums, float of) const { sums.AddPowers(of); }
  PARTITA_HOST_DEVICE void Merge(Partial& sums, const Partial& other) const { sums += other; }
  PARTITA_HOST_DEVICE void Store(int64_t row, const Partial& sums) const {
    const double mean = sums.first * one_over_size;
    double variance = sums.second * one_over_size - mean * mean;
    if (variance < 0) variance = 0;  // rounding
    statistics[row].mean = mean;
    statistics[row].rstd = 1 / sqrt(variance + epsilon);
  }
};

struct LayerNormElement {
  const RowStatistics* statistics = nullptr;
  const float *x = nullptr, *gamma = nullptr, *beta = nullptr;
  float* y = nullptr;
  Divisor size;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitVectors(Visit&& visit) {
    visit(x, y);
  }
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    VisitVectors(visit);
    visit(statistics, gamma, beta);
  }
  using Operands = float;
  template <class Int>
  PARTITA_HOST_DEVICE Operands Load(Int i) const {
    return x[i];
  }
  template <class Int>
  PARTITA_HOST_DEVICE void Store(Int i, float value) const {
    const auto [row, column] = size.Divide(i);
    const auto xhat = static_cast<float>(RowStatistics::Normalized(statistics + row, value));
    y[i] = xhat * ReadOnly(gamma + column) + ReadOnly(beta + column);
  }
};

// Means over a row of the gradient of xhat, and of that times xhat.
struct RowMeans {
  double mean = 0, along = 0;
};

struct LayerNormRowReduction {
  using Partial = PairOfSums;
  const RowStatistics* statistics = nullptr;
  const float *x = nullptr, *gamma = nullptr, *dy = nullptr;
  int64_t size = 1;
  RowMeans* means = nullptr;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    visit(statistics, x, gamma, dy, means);
  }
  PARTITA_HOST_DEVICE Partial Start() const { return Partial(); }
  template <class Int>
  PARTITA_HOST_DEVICE void Add(Partial& sums, Int row, Int k) const {
    const Int i = row * static_cast<Int>(size) + k;
    const auto gradient = static_cast<double>(dy[i] * gamma[k]);
    sums.first += gradient;
    sums.second += gradient * (static_cast<double>(x[i]) - ReadOnly(&statistics[row].mean));
  }
  PARTITA_HOST_DEVICE void Merge(Partial& sums, const Partial& other) const { sums += other; }
  PARTITA_HOST_DEVICE void Store(int64_t row, const Partial& sums) const {
    means[row].mean = sums.first / static_cast<double>(size);
    means[row].along = sums.second * statistics[row].rstd / static_cast<double>(size);
  }
};

struct LayerNormGradientElement {
  const RowStatistics* statistics = nullptr;
  const RowMeans* means = nullptr;
  const float *x = nullptr, *gamma = nullptr, *dy = nullptr;
  float* dx = nullptr;
  Divisor size;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitVectors(Visit&& visit) {
    visit(x, dy, dx);
  }
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    VisitVectors(visit);
    visit(statistics, means, gamma);
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
    const auto [row, column] = size.Divide(i);
    const double xhat = RowStatistics::Normalized(statistics + row, of.x);
    const auto gradient = static_cast<double>(of.dy * ReadOnly(gamma + column));
    const double mean = ReadOnly(&means[row].mean), along = ReadOnly(&means[row].along);
    const double rstd = ReadOnly(&statistics[row].rstd);
    dx[i] = static_cast<float>(rstd * (gradient - mean - xhat * along));
  }
};

// A row is a column of x: the sum of dy * xhat over the rows of x, which are the terms.
struct LayerNormGammaReduction {
  using Partial = double;
  const RowStatistics* statistics = nullptr;
  const float *x = nullptr, *dy = nullptr;
  int64_t size = 1;
  float* dgamma = nullptr;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    visit(statistics, x, dy, dgamma);
  }
  PARTITA_HOST_DEVICE Partial Start() const { return 0; }
  template <class Int>
  PARTITA_HOST_DEVICE void Add(Partial& sum, Int column, Int k) const {
    const Int i = k * static_cast<Int>(size) + column;
    const double xhat = RowStatistics::Normalized(statistics + k, x[i]);
    sum += static_cast<double>(dy[i]) * xhat;
  }
  PARTITA_HOST_DEVICE void Merge(Partial& sum, const Partial& other) const { sum += other; }
  PARTITA_HOST_DEVICE void Store(int64_t column, const Partial& sum) const {
    dgamma[column] = static_cast<float>(sum);
  }
};

}  // namespace partita
