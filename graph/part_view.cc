#include "graph/part_view.h"

#include <algorithm>

#include "graph/support/check.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

// Whether the blocks of these loops hold their first indices. Empty blocks hold none.
bool IsFirst(LoopSet loops, std::span<const Interval> blocks) {
  for (size_t l = 0; l < blocks.size() && !loops.empty(); ++l) {
    if (loops.Contains(static_cast<int>(l)) && (blocks[l].lo != 0 || blocks[l].empty())) {
      return false;
    }
  }
  return true;
}

bool IsLastBlock(const DimMap& map, const ShardingRule& rule, std::span<const Interval> blocks) {
  for (int8_t loop : map.loops) {
    const auto l = static_cast<size_t>(loop);
    if (blocks[l].hi != rule.loops[l].extent) return false;
  }
  return true;
}

absl::Status FindView(const ShardingRule& rule, const std::vector<DimMap>& dims, const Shape& shape,
                      std::span<const Interval> blocks, TensorView& view) {
  view.box = Box(static_cast<int>(dims.size()));
  view.pads.resize(dims.size());
  if (dims.empty()) return absl::OkStatus();
  Interval* const boxes = &view.box[0];
  Pads* const pads = view.pads.data();
  const int64_t* const extents = shape.data();
  for (size_t d = 0; d < dims.size(); ++d) {
    const DimMap& map = dims[d];
    const std::span<const int8_t> loops = map.loops;
    Interval wide{map.lo, map.hi};
    if (loops.size() == 1) {
      wide = UnclippedInterval(map, blocks[static_cast<size_t>(loops[0])]);
    } else if (!loops.empty()) {
      ASSIGN_OR_RETURN(wide, UnclippedInterval(map, rule.loops, blocks));
    }
    const int64_t extent = extents[d];
    if (wide.lo >= 0 && wide.hi <= extent && wide.lo < wide.hi && !map.slack) {
      boxes[d] = wide;
      continue;
    }
    Interval box{std::clamp<int64_t>(wide.lo, 0, extent), std::clamp<int64_t>(wide.hi, 0, extent)};
    box.hi = std::max(box.lo, box.hi);
    if (map.slack && wide.hi < extent && IsLastBlock(map, rule, blocks)) box.hi = extent;
    boxes[d] = box;
    pads[d] = box.empty() ? Pads{wide.size(), 0} : Pads{box.lo - wide.lo, wide.hi - box.hi};
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PartView> ViewPart(const ShardingRule& rule, std::span<const Shape> operands,
                                  std::span<const Shape> results, std::vector<Interval> blocks) {
  CHECK_EQ(blocks.size(), rule.loops.size());
  CHECK_EQ(operands.size(), rule.operands.size());
  CHECK_EQ(results.size(), rule.results.size());
  PartView part;
  part.operands.reserve(operands.size());
  part.results.reserve(results.size());
  for (size_t k = 0; k < operands.size(); ++k) {
    const OperandRule& operand = rule.operands[k];
    TensorView& view = part.operands.emplace_back();
    view.present = IsFirst(operand.once_loops, blocks);
    RETURN_IF_ERROR(FindView(rule, operand.dims, operands[k], blocks, view));
  }
  for (size_t k = 0; k < results.size(); ++k) {
    const ResultRule& result = rule.results[k];
    TensorView& view = part.results.emplace_back();
    view.present = IsFirst(result.once_loops, blocks);
    RETURN_IF_ERROR(FindView(rule, result.dims, results[k], blocks, view));
  }
  part.blocks = std::move(blocks);
  return part;
}

PartView ViewWhole(const ShardingRule& rule, std::span<const Shape> operands,
                   std::span<const Shape> results) {
  std::vector<Interval> blocks;
  for (const LoopDim& loop : rule.loops) blocks.push_back({0, loop.extent});
  auto view = ViewPart(rule, operands, results, std::move(blocks));
  CHECK(view.ok()) << view.status();
  return *std::move(view);
}

}  // namespace partita
