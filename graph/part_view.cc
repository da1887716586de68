#include "graph/part_view.h"

#include <algorithm>

#include "graph/support/check.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

// Whether the blocks of these loops hold their first indices. Empty blocks hold none.
bool IsFirst(LoopSet loops, std::span<const Interval> blocks) {
  if (loops.empty()) return true;
  for (size_t l = 0; l < blocks.size(); ++l) {
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

bool AreOver(const DimMap& map, LoopSet loops) {
  for (int8_t loop : map.loops) {
    if (loops.Contains(loop)) return true;
  }
  return false;
}

// Room for the tensors of a part.
std::vector<TensorView> ViewsOf(std::span<const Shape> shapes) {
  std::vector<TensorView> views(shapes.size());
  for (size_t k = 0; k < shapes.size(); ++k) {
    views[k].box = Box(static_cast<int>(shapes[k].size()));
    views[k].pads.resize(shapes[k].size());
  }
  return views;
}

}  // namespace

PartViews::PartViews(const ShardingRule& rule, std::span<const Shape> operands,
                     std::span<const Shape> results)
    : rule_(rule), operands_(operands), results_(results) {
  CHECK_EQ(operands.size(), rule.operands.size());
  CHECK_EQ(results.size(), rule.results.size());
  view_.operands = ViewsOf(operands);
  view_.results = ViewsOf(results);
}

absl::Status PartViews::Find(std::span<const Interval> blocks) {
  CHECK_EQ(blocks.size(), rule_.loops.size());
  changed_ = {};
  for (size_t l = 0; l < view_.blocks.size(); ++l) {
    if (blocks[l] != view_.blocks[l]) changed_.Insert(static_cast<int>(l));
  }
  view_.blocks.assign(blocks.begin(), blocks.end());
  const absl::Status status = FindTensors();
  is_new_ = !status.ok();
  return status;
}

absl::Status PartViews::FindTensors() {
  for (size_t k = 0; k < operands_.size(); ++k) {
    const OperandRule& operand = rule_.operands[k];
    const LoopSet once = operand.once_loops;
    RETURN_IF_ERROR(FindTensor(operand.dims, once, operands_[k], view_.operands[k]));
  }
  for (size_t k = 0; k < results_.size(); ++k) {
    const ResultRule& result = rule_.results[k];
    const LoopSet once = result.once_loops;
    RETURN_IF_ERROR(FindTensor(result.dims, once, results_[k], view_.results[k]));
  }
  return absl::OkStatus();
}

absl::Status PartViews::FindTensor(const std::vector<DimMap>& dims, LoopSet once,
                                   const Shape& shape, TensorView& view) const {
  const std::span<const Interval> blocks = view_.blocks;
  view.present = IsFirst(once, blocks);
  for (size_t d = 0; d < dims.size(); ++d) {
    const DimMap& map = dims[d];
    if (!is_new_ && !AreOver(map, changed_)) continue;
    WideInterval wide{map.lo, map.hi};
    if (map.loops.size() == 1) {
      wide = UnclippedInterval(map, blocks[static_cast<size_t>(map.loops[0])]);
    } else if (!map.loops.empty()) {
      ASSIGN_OR_RETURN(wide, UnclippedInterval(map, rule_.loops, blocks));
    }
    const int64_t extent = shape[d];
    Interval box{std::clamp<int64_t>(wide.lo, 0, extent), std::clamp<int64_t>(wide.hi, 0, extent)};
    box.hi = std::max(box.lo, box.hi);
    if (map.slack && wide.hi < extent && IsLastBlock(map, rule_, blocks)) box = {box.lo, extent};
    view.box[static_cast<int>(d)] = box;
    view.pads[d] =
        box.empty() ? Pads(wide.hi - wide.lo, 0) : Pads(box.lo - wide.lo, wide.hi - box.hi);
  }
  return absl::OkStatus();
}

absl::StatusOr<PartView> ViewPart(const ShardingRule& rule, std::span<const Shape> operands,
                                  std::span<const Shape> results, std::vector<Interval> blocks) {
  PartViews views(rule, operands, results);
  RETURN_IF_ERROR(views.Find(blocks));
  return views.view();
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
