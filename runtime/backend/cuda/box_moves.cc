#include "runtime/backend/cuda/box_moves.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "graph/support/check.h"

namespace partita {
namespace {

struct Dimension {
  int64_t extent, from_stride, to_stride;
};

}  // namespace

StridedBox StridedBoxOf(const Stream::MoveArguments& move) {
  const Box& from = move.kind == MoveSignature::Kind::kFill ? move.to_box : move.from_box;
  const Box& to = move.to_box;
  StridedBox box;
  absl::InlinedVector<Dimension, StridedBox::kMaxRank> dimensions;  // innermost first
  int64_t from_stride = 1, to_stride = 1;
  for (int d = move.region.rank() - 1; d >= 0; --d) {
    const int64_t extent = move.region[d].size();
    box.elements *= extent;
    box.from_offset += (move.region[d].lo - from[d].lo) * from_stride;
    box.to_offset += (move.region[d].lo - to[d].lo) * to_stride;
    const bool follows = !dimensions.empty() &&
                         from_stride == dimensions.back().from_stride * dimensions.back().extent &&
                         to_stride == dimensions.back().to_stride * dimensions.back().extent;
    if (follows) {
      dimensions.back().extent *= extent;
    } else if (extent != 1) {
      dimensions.push_back({extent, from_stride, to_stride});
    }
    from_stride *= from[d].size();
    to_stride *= to[d].size();
  }
  CHECK(dimensions.size() <= StridedBox::kMaxRank) << "a box of too many dimensions";
  box.rank = static_cast<int>(dimensions.size());
  for (size_t k = 0; k < dimensions.size(); ++k) {
    const Dimension& dimension = dimensions[dimensions.size() - 1 - k];
    box.extent[k] = Divisor::Of(std::max<int64_t>(1, dimension.extent));
    box.from_stride[k] = dimension.from_stride;
    box.to_stride[k] = dimension.to_stride;
  }
  return box;
}

std::vector<RowsCopy> RowsCopiesOf(const StridedBox& box) {
  if (box.elements == 0) return {};
  StridedBox outer = box;  // its dimensions but those that one copy takes
  RowsCopy shape{0, 0, 1, 1, 1, 1};
  const auto inner = [&outer] { return static_cast<size_t>(outer.rank - 1); };
  if (outer.rank > 0 && outer.from_stride[inner()] == 1 && outer.to_stride[inner()] == 1) {
    shape.width = shape.from_pitch = shape.to_pitch = outer.extent[inner()].value;
    outer.elements /= shape.width;
    --outer.rank;
  }
  const auto near = [&](int64_t stride) { return stride <= RowsCopy::kMostPitch; };
  if (outer.rank > 0 && near(outer.from_stride[inner()]) && near(outer.to_stride[inner()])) {
    shape.height = outer.extent[inner()].value;
    shape.from_pitch = outer.from_stride[inner()];
    shape.to_pitch = outer.to_stride[inner()];
    outer.elements /= shape.height;
    --outer.rank;
  }
  std::vector<RowsCopy> copies;
  for (int64_t i = 0; i < outer.elements; ++i) {
    copies.push_back(shape);
    outer.Locate(i, copies.back().from_offset, copies.back().to_offset);
  }
  return copies;
}

}  // namespace partita
