#pragma once

#include <cstdint>

#include "runtime/backend/cuda/elements/strided_index.h"
#include "runtime/backend/cuda/host_device_code.h"

namespace partita {

// The elements of a box in two row-major windows, as few dimensions as it takes: dimensions that
// are contiguous on both sides are merged. Strides and offsets in elements.
struct StridedBox {
  static constexpr int kMaxRank = 8;
  int rank = 0;  // 0: one element
  Divisor extent[kMaxRank] = {};
  int64_t from_stride[kMaxRank] = {}, to_stride[kMaxRank] = {};
  int64_t from_offset = 0, to_offset = 0;
  int64_t elements = 1;

  // One run without gaps on both sides.
  bool contiguous() const {
    return rank == 0 || (rank == 1 && from_stride[0] == 1 && to_stride[0] == 1);
  }

  // Offsets of element i of the box on both sides.
  template <class Int>
  PARTITA_HOST_DEVICE void Locate(Int i, int64_t& from, int64_t& to) const {
    from = from_offset;
    to = to_offset;
#ifdef __CUDACC__
#pragma unroll 1
#endif
    for (int d = rank - 1; d >= 0; --d) {
      const auto [rest, at] = d == 0 ? Division<Int>{0, i} : extent[d].Divide(i);
      from += at * from_stride[d];
      to += at * to_stride[d];
      i = rest;
    }
  }
};

enum class MoveOp : uint8_t { kZero, kCopy, kAdd, kMax };

// One element of a move. T: float, double, int32_t, int64_t or uint64_t (sums wrap).
template <class T, class Int>
PARTITA_HOST_DEVICE inline void MoveElement(MoveOp op, const StridedBox& box, const T* from, T* to,
                                            Int i) {
  int64_t at_from = 0, at_to = 0;
  box.Locate(i, at_from, at_to);
  switch (op) {
    case MoveOp::kZero:
      to[at_to] = T(0);
      return;
    case MoveOp::kCopy:
      to[at_to] = from[at_from];
      return;
    case MoveOp::kAdd:
      to[at_to] += from[at_from];
      return;
    case MoveOp::kMax:
      if (to[at_to] < from[at_from]) to[at_to] = from[at_from];
      return;
  }
}

}  // namespace partita
