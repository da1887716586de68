#pragma once

#include <cstdint>

#include "runtime/backend/cuda/host_device_code.h"

namespace partita {

template <class Int>
struct Division {
  Int quotient, rest;
};

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

  // Int: int32_t, which asks no question, or int64_t.
  template <class Int>
  PARTITA_HOST_DEVICE Int Quotient(Int n) const {
    if constexpr (sizeof(Int) > sizeof(int32_t)) {
      if (n > kSmall) return n / value;
    }
    const auto small = static_cast<uint32_t>(n);
    const auto high = static_cast<uint32_t>((static_cast<uint64_t>(small) * factor) >> 32);
    return static_cast<Int>((high + small) >> shift);
  }
  // n = quotient * value + rest. Of a value beyond Int the quotient is 0.
  template <class Int>
  PARTITA_HOST_DEVICE Division<Int> Divide(Int n) const {
    const Int quotient = Quotient(n);
    return {quotient, static_cast<Int>(n - quotient * static_cast<Int>(value))};
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
  // True if element i lies at place i.
  bool in_order() const { return contiguous() && offset == 0; }

  template <class Int>
  PARTITA_HOST_DEVICE int64_t operator()(Int i) const {
    int64_t at = offset;
#ifdef __CUDACC__
#pragma unroll 1
#endif
    for (int d = rank - 1; d > 0; --d) {
      const auto [rest, index] = extent[d].Divide(i);
      at += index * stride[d];
      i = rest;
    }
    return rank == 0 ? at : at + i * stride[0];
  }
};

// Channels of the elements of x[n, channels, inner].
struct ElementChannels {
  Divisor inner, channels;

  template <class Int>
  PARTITA_HOST_DEVICE Int Of(Int i) const {
    return channels.Divide(inner.Quotient(i)).rest;
  }

  // The neighbours from element i on, which lie in its row and the next: the first `of_first` of them
  // have `first`, the others `second`.
  template <class Int>
  struct Neighbours {
    Int first, second, of_first;
  };
  template <class Int>
  PARTITA_HOST_DEVICE Neighbours<Int> From(Int i) const {
    const auto [row, place] = inner.Divide(i);
    const Int channel = channels.Divide(row).rest;
    const Int next = channel + 1 < static_cast<Int>(channels.value) ? channel + 1 : Int{0};
    return {channel, next, static_cast<Int>(inner.value) - place};
  }
  // Whether so many neighbours lie in two rows at most.
  bool HoldInTwoRows(int neighbours) const { return inner.value >= neighbours; }
};

}  // namespace partita
