#pragma once

#include <cmath>

#include "runtime/backend/cuda/elements/norm_elements.h"
#include "runtime/backend/cuda/elements/strided_index.h"

// Reductions of each of some rows over some terms. A functor has a type Partial with
//   Start()                     the result of no terms
//   Add(partial, row, k)        takes term k (or Load and Add, see read_first.h)
//   Merge(partial, other)       takes the partial result of other terms
//   Store(row, partial)         writes the row's results
// Sums are taken in double. Which terms are added and merged in which order is fixed by the numbers
// of rows and terms only, so that the same launch gives the same bits.

namespace partita {

// y[row] = factor * sum of a (times b, where there is one).
struct SumReduction {
  using Partial = double;
  const float *a = nullptr, *b = nullptr;
  StridedIndex a_rows, a_terms, b_rows, b_terms;
  double factor = 1;
  float* y = nullptr;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    visit(a, b, y);
  }
  PARTITA_HOST_DEVICE Partial Start() const { return 0; }
  struct Operands {
    float a, b;
  };
  template <class Int>
  PARTITA_HOST_DEVICE Operands Load(Int row, Int k) const {
    return {a[a_rows(row) + a_terms(k)], b == nullptr ? 1.0f : b[b_rows(row) + b_terms(k)]};
  }
  PARTITA_HOST_DEVICE void Add(Partial& sum, const Operands& of) const {
    sum += static_cast<double>(of.a) * static_cast<double>(of.b);
  }
  PARTITA_HOST_DEVICE void Merge(Partial& sum, const Partial& other) const { sum += other; }
  PARTITA_HOST_DEVICE void Store(int64_t row, const Partial& sum) const {
    y[row] = static_cast<float>(sum * factor);
  }
};

// The largest element of each row of x[rows, classes]; not-a-number never is.
struct RowMaxReduction {
  using Partial = float;
  const float* x = nullptr;
  int64_t classes = 1;
  float* y = nullptr;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    visit(x, y);
  }
  PARTITA_HOST_DEVICE Partial Start() const { return -HUGE_VALF; }
  template <class Int>
  PARTITA_HOST_DEVICE void Add(Partial& most, Int row, Int k) const {
    Merge(most, x[row * classes + k]);
  }
  PARTITA_HOST_DEVICE void Merge(Partial& most, const Partial& other) const {
    if (most < other) most = other;
  }
  PARTITA_HOST_DEVICE void Store(int64_t row, const Partial& most) const { y[row] = most; }
};

// The sum of exp(x - m) over each row, or of exp(x - m) / s * dy.
struct SumExpReduction {
  using Partial = double;
  const float *x = nullptr, *m = nullptr, *s = nullptr, *dy = nullptr;
  bool with_dy = false;
  int64_t classes = 1;
  float* y = nullptr;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    visit(x, m, s, dy, y);
  }
  PARTITA_HOST_DEVICE Partial Start() const { return 0; }
  template <class Int>
  PARTITA_HOST_DEVICE void Add(Partial& sum, Int row, Int k) const {
    const int64_t i = row * classes + k;
    const float value = expf(x[i] - m[row]);
    sum += static_cast<double>(with_dy ? value * dy[i] : value);
  }
  PARTITA_HOST_DEVICE void Merge(Partial& sum, const Partial& other) const { sum += other; }
  PARTITA_HOST_DEVICE void Store(int64_t row, const Partial& sum) const {
    y[row] = static_cast<float>(with_dy ? sum / static_cast<double>(s[row]) : sum);
  }
};

// One row; a term is a row of x[terms, classes]. Without m and s: only what the labels add.
struct CrossEntropyReduction {
  using Partial = double;
  const float *x = nullptr, *m = nullptr, *s = nullptr;
  const int32_t* labels = nullptr;
  int64_t classes = 1, first_class = 0;
  double one_over_rows = 1;
  float* y = nullptr;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    visit(x, m, s, labels, y);
  }
  PARTITA_HOST_DEVICE Partial Start() const { return 0; }
  template <class Int>
  PARTITA_HOST_DEVICE void Add(Partial& sum, Int, Int k) const {
    if (m != nullptr) sum += log(static_cast<double>(s[k])) + static_cast<double>(m[k]);
    const int64_t at = labels[k] - first_class;
    if (at >= 0 && at < classes) sum -= static_cast<double>(x[k * classes + at]);
  }
  PARTITA_HOST_DEVICE void Merge(Partial& sum, const Partial& other) const { sum += other; }
  PARTITA_HOST_DEVICE void Store(int64_t, const Partial& sum) const {
    y[0] = static_cast<float>(sum * one_over_rows);
  }
};

// One row; a term is a row of x[terms, classes].
struct CountCorrectReduction {
  using Partial = int64_t;
  const float *x = nullptr, *m = nullptr;
  const int32_t* labels = nullptr;
  int64_t classes = 1, first_class = 0;
  float* y = nullptr;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    visit(x, m, labels, y);
  }
  PARTITA_HOST_DEVICE Partial Start() const { return 0; }
  template <class Int>
  PARTITA_HOST_DEVICE void Add(Partial& count, Int, Int k) const {
    const int64_t at = labels[k] - first_class;
    if (at >= 0 && at < classes && x[k * classes + at] == m[k]) ++count;
  }
  PARTITA_HOST_DEVICE void Merge(Partial& count, const Partial& other) const { count += other; }
  PARTITA_HOST_DEVICE void Store(int64_t, const Partial& count) const {
    y[0] = static_cast<float>(count);
  }
};

// Offsets of the elements of a channel of x[n, c, inner].
struct ChannelElements {
  int64_t channels = 1;
  Divisor inner;
  template <class Int>
  PARTITA_HOST_DEVICE Int operator()(Int c, Int k) const {
    const Int sample = inner.Quotient(k);
    return (sample * static_cast<Int>(channels - 1) + c) * static_cast<Int>(inner.value) + k;
  }
};

// A row is a channel: the sum of x.
struct ChannelSumReduction {
  using Partial = double;
  ChannelElements at;
  const float* x = nullptr;
  float* y = nullptr;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    visit(x, y);
  }
  PARTITA_HOST_DEVICE Partial Start() const { return 0; }
  using Operands = float;
  template <class Int>
  PARTITA_HOST_DEVICE Operands Load(Int c, Int k) const {
    return x[at(c, k)];
  }
  PARTITA_HOST_DEVICE void Add(Partial& sum, float of) const { sum += static_cast<double>(of); }
  PARTITA_HOST_DEVICE void Merge(Partial& sum, const Partial& other) const { sum += other; }
  PARTITA_HOST_DEVICE void Store(int64_t c, const Partial& sum) const {
    y[c] = static_cast<float>(sum);
  }
};

struct PairOfSums {
  double first = 0, second = 0;
  PARTITA_HOST_DEVICE void operator+=(const PairOfSums& other) {
    first += other.first;
    second += other.second;
  }
  // Adds a number to the first, its square to the second.
  PARTITA_HOST_DEVICE void AddPowers(float number) {
    const auto value = static_cast<double>(number);
    first += value;
    second += value * value;
  }
};

// A row is a channel: the sums of x and of x^2.
struct MomentsReduction {
  using Partial = PairOfSums;
  ChannelElements at;
  const float* x = nullptr;
  double *s1 = nullptr, *s2 = nullptr;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    visit(x, s1, s2);
  }
  PARTITA_HOST_DEVICE Partial Start() const { return Partial(); }
  using Operands = float;
  template <class Int>
  PARTITA_HOST_DEVICE Operands Load(Int c, Int k) const {
    return x[at(c, k)];
  }
  PARTITA_HOST_DEVICE void Add(Partial& sums, float of) const { sums.AddPowers(of); }
  PARTITA_HOST_DEVICE void Merge(Partial& sums, const Partial& other) const { sums += other; }
  PARTITA_HOST_DEVICE void Store(int64_t c, const Partial& sums) const {
    s1[c] = sums.first;
    s2[c] = sums.second;
  }
};

// A row is a channel: the sums of dy * xhat and of dy (the latter where t1 is there).
struct GradMomentsReduction {
  using Partial = PairOfSums;
  ChannelElements at;
  ChannelStatistics statistics;
  const float *x = nullptr, *dy = nullptr;
  float *t2 = nullptr, *t1 = nullptr;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    statistics.VisitPointers(visit);
    visit(x, dy, t2, t1);
  }
  PARTITA_HOST_DEVICE Partial Start() const { return Partial(); }
  struct Operands {
    int64_t channel;
    float x, dy;
  };
  template <class Int>
  PARTITA_HOST_DEVICE Operands Load(Int c, Int k) const {
    const Int i = at(c, k);
    return {c, x[i], dy[i]};
  }
  PARTITA_HOST_DEVICE void Add(Partial& sums, const Operands& of) const {
    const auto gradient = static_cast<double>(of.dy);
    sums.first += gradient * (static_cast<double>(of.x) - statistics.Mean(of.channel));
    sums.second += gradient;
  }
  PARTITA_HOST_DEVICE void Merge(Partial& sums, const Partial& other) const { sums += other; }
  PARTITA_HOST_DEVICE void Store(int64_t c, const Partial& sums) const {
    t2[c] = static_cast<float>(sums.first * statistics.Rstd(c));
    if (t1 != nullptr) t1[c] = static_cast<float>(sums.second);
  }
};

}  // namespace partita
