#pragma once

#include <cstdint>

#include "runtime/backend/cuda/host_device_code.h"

namespace partita {

// Division by a number that stays the same: a multiplication and a shift for dividends below 2^31
// (Granlund and Montgomery, "Division by invariant integers using multiplication", PLDI 1994), the
// machine's division beyond. Dividends are not negative, the divisor is at least 1.
struct Divisor {
  int64_t value = 1;
  uint32_t factor = 1, shift = 0;

  static Divisor Of(int64_t value) {
    Divisor divisor;
    divisor.value = value;
    if (value > kSmall) {  // small dividends give 0
      divisor.factor = 0;
      divisor.shift = 31;
      return divisor;
    }
    while ((int64_t{1} << divisor.shift) < value) ++divisor.shift;
    const int64_t excess = (int64_t{1} << divisor.shift) - value;
    divisor.factor = static_cast<uint32_t>((excess << 32) / value + 1);
    return divisor;
  }

  PARTITA_HOST_DEVICE int64_t Quotient(int64_t n) const {
    if (n > kSmall) return n / value;
    const auto small = static_cast<uint32_t>(n);
    const auto high = static_cast<uint32_t>((static_cast<uint64_t>(small) * factor) >> 32);
    return static_cast<int64_t>((high + small) >> shift);
  }

 private:
  static constexpr int64_t kSmall = 0x7fffffff;
};

// Offset of element i of a row-major walk over some extents: the sum of index times stride. As few
// dimensions as it takes.
struct StridedIndex {
  static constexpr int kMaxRank = 8;
  int rank = 0;  // 0: one element
  int64_t offset = 0;
  Divisor extent[kMaxRank] = {};
  int64_t stride[kMaxRank] = {};

  // True if the elements lie in order, without gaps.
  bool contiguous() const { return rank == 0 || (rank == 1 && stride[0] == 1); }

  PARTITA_HOST_DEVICE int64_t operator()(int64_t i) const {
    int64_t at = offset;
    for (int d = rank - 1; d > 0; --d) {
      const int64_t rest = extent[d].Quotient(i);
      at += (i - rest * extent[d].value) * stride[d];
      i = rest;
    }
    return rank == 0 ? at : at + i * stride[0];
  }
};

}  // namespace partita
