#pragma once

#include <cstddef>

#include "graph/support/philox.h"
#include "runtime/backend/cuda/elements/step_numbers.h"
#include "runtime/backend/cuda/elements/strided_index.h"

// Dropout, forward and gradient alike: y = x * mask * scale, the mask by the element's global index
// (graph/ops/dropout.h).

namespace partita {

// Dropout of one element, at any position of the whole tensor.
struct DropoutElement {
  const float* x = nullptr;
  float* y = nullptr;
  StridedIndex global;
  StepNumbersArgument numbers;
  uint64_t stream = 0;
  uint32_t threshold = 0;
  float scale = 1;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    visit(x, y, numbers);
  }
  template <class Int>
  PARTITA_HOST_DEVICE void operator()(Int i) const {
    const uint64_t key = (*numbers).dropout_key;
    const uint32_t word = PhiloxWord(key, stream, static_cast<uint64_t>(global(i)));
    y[i] = word >= threshold ? x[i] * scale : 0.0f;
  }
};

// Dropout of one run of global indices [first, first + count), four neighbours at a time, which
// share a call of the generator. i counts the generator's blocks from that of `first`.
struct DropoutRunElement {
  const float* x = nullptr;
  float* y = nullptr;
  int64_t first = 0, count = 0;
  StepNumbersArgument numbers;
  uint64_t stream = 0;
  uint32_t threshold = 0;
  float scale = 1;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    visit(x, y, numbers);
  }
  int64_t blocks() const { return count == 0 ? 0 : (first + count + 3) / 4 - first / 4; }
  template <class Int>
  PARTITA_HOST_DEVICE void operator()(Int i) const {
    const int64_t block = first / 4 + i;
    const auto words = PhiloxBlock((*numbers).dropout_key, stream, static_cast<uint64_t>(block));
    for (int64_t k = 0; k < 4; ++k) {
      const int64_t at = block * 4 + k - first;
      if (at < 0 || at >= count) continue;
      y[at] = words[static_cast<size_t>(k)] >= threshold ? x[at] * scale : 0.0f;
    }
  }
};

}  // namespace partita
