#pragma once

#include <cstdint>

#include "runtime/backend/cuda/elements/strided_index.h"

// Rows of a table that indices name (graph/ops/embedding.h). A part has the rows
// [first_row, first_row + rows).

namespace partita {

// y[k, c] = table[indices[k], c], or 0 where the part does not have that row.
struct EmbeddingElement {
  const int32_t* indices = nullptr;
  const float* table = nullptr;
  float* y = nullptr;
  int64_t first_row = 0, rows = 0;
  Divisor channels;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    visit(indices, table, y);
  }
  template <class Int>
  PARTITA_HOST_DEVICE void operator()(Int i) const {
    const auto [k, c] = channels.Divide(i);
    const int64_t row = ReadOnly(indices + k) - first_row;
    y[i] = row >= 0 && row < rows ? ReadOnly(table + (row * channels.value + c)) : 0.0f;
  }
};

// Chains of equal indices, so that the gradient of each row is summed in one order: next[k] is the
// next position with the index of position k, or -1; first[k] is 1 where there is none before it.
struct EqualIndexElement {
  const int32_t* indices = nullptr;
  int32_t *next = nullptr, *first = nullptr;
  int64_t count = 0;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    visit(indices, next, first);
  }
  template <class Int>
  PARTITA_HOST_DEVICE void operator()(Int k) const {
    const int32_t index = indices[k];
    int64_t before = static_cast<int64_t>(k) - 1, after = static_cast<int64_t>(k) + 1;
    while (before >= 0 && indices[before] != index) --before;
    while (after < count && indices[after] != index) ++after;
    first[k] = before < 0 ? 1 : 0;
    next[k] = after < count ? static_cast<int32_t>(after) : -1;
  }
};

// dtable[indices[k], c] = the sum of dy over the chain that starts at k. Writes the rows that are
// named; all others are zero before.
struct EmbeddingGradientElement {
  const int32_t *indices = nullptr, *next = nullptr, *first = nullptr;
  const float* dy = nullptr;
  float* dtable = nullptr;
  int64_t first_row = 0, rows = 0;
  Divisor channels;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    visit(indices, next, first, dy, dtable);
  }
  template <class Int>
  PARTITA_HOST_DEVICE void operator()(Int i) const {
    const auto [k, c] = channels.Divide(i);
    const int64_t row = indices[k] - first_row;
    if (first[k] == 0 || row < 0 || row >= rows) return;
    float sum = 0;
    for (int64_t at = k; at >= 0; at = next[at]) sum += dy[at * channels.value + c];
    dtable[row * channels.value + c] = sum;
  }
};

}  // namespace partita
