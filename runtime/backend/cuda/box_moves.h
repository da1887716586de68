#pragma once

#include <vector>

#include "runtime/backend/backend.h"
#include "runtime/backend/cuda/strided_box.h"

namespace partita {

// Arguments of CUDA's copies for moves. Nothing here needs a GPU.

// The region of a move in its two windows (of a fill: twice in the one). At most
// StridedBox::kMaxRank dimensions are left once contiguous ones are merged: CHECKed.
StridedBox StridedBoxOf(const Stream::MoveArguments& move);

// A copy of `height` rows of `width` elements whose starts are a pitch apart: one cudaMemcpy2D, of
// one row a cudaMemcpy.
struct RowsCopy {
  // Largest pitch between rows, in elements of 8 bytes: cudaMemcpy2D takes 2^31 - 1 bytes at most.
  static constexpr int64_t kMostPitch = 0x7fffffff / 8;
  int64_t from_offset = 0, to_offset = 0;
  int64_t width = 0, height = 1;
  int64_t from_pitch = 0, to_pitch = 0;  // equal to the width if there is one row
};

// The copies that a box takes, its inner dimension without gaps.
std::vector<RowsCopy> RowsCopiesOf(const StridedBox& box);

}  // namespace partita
