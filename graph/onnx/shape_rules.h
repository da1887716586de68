#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/box.h"
#include "graph/onnx/importer.h"

// ONNX's rules for shapes, which apply to constants and to tensors alike.

namespace partita::onnx {

// An axis in [-rank, rank) as an index.
absl::StatusOr<size_t> CheckedAxis(int64_t axis, size_t rank);

// Reshape's target: -1 takes what is left, 0 copies the operand's extent unless `allow_zero`.
absl::StatusOr<Shape> ResolveReshape(const Shape& x, const std::vector<int64_t>& target,
                                     bool allow_zero);

// Flatten's two dimensions: the product of those before `axis` and of those from it on.
absl::StatusOr<Shape> FlattenedShape(const Shape& x, int64_t axis);

// Shape without the given dimensions of extent 1 (none given: all of them), and shape with such
// added.
absl::StatusOr<Shape> SqueezedShape(const Shape& x, const std::vector<int64_t>& axes);
absl::StatusOr<Shape> UnsqueezedShape(const Shape& x, const std::vector<int64_t>& axes);

// NumPy's broadcasting: aligned at the last dimension, extents of 1 repeat.
absl::StatusOr<Shape> BroadcastShape(const Shape& a, const Shape& b);

// Index map of a broadcast operand: Of(i) is the row-major index in the operand of element i of the
// result.
class BroadcastIndex {
 public:
  BroadcastIndex(const Shape& operand, const Shape& result);
  int64_t Of(int64_t i) const;

 private:
  Shape result_, strides_;
};

// One dimension of a slice: indices start, start + step, ..., `count` of them.
struct SliceRange {
  int64_t start = 0, step = 1, count = 0;
};

// The slice that a Slice node takes of an operand of that shape, for every dimension; from its
// inputs (opset 10 and newer) or its attributes.
absl::StatusOr<std::vector<SliceRange>> SliceRanges(NodeImport& node, const Shape& x);

}  // namespace partita::onnx
