#pragma once

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "graph/box.h"
#include "graph/ops/ops.h"

// Limits for models that come from files, far above any real one and low enough that shapes, bytes
// and arithmetic of every operator stay within 64 bits.

namespace partita {

constexpr int64_t kMaxElements = int64_t{1} << 40;  // most elements of one tensor
constexpr int64_t kMaxWindow = int64_t{1} << 16;    // kernels, strides, dilations, pads
constexpr double kMaxMultiplyAdds = 9e15;           // most multiply-adds of one operator

// The product of the extents; InvalidArgument if one is negative or above kMaxExtent, or the
// product above kMaxElements.
absl::StatusOr<int64_t> CheckedVolume(const Shape& shape);

// InvalidArgument if an operator of these operands and results exceeds the limits.
absl::Status CheckWithinLimits(const OpAttrs& attrs, std::span<const Shape> operands,
                               std::span<const Shape> results);

}  // namespace partita
