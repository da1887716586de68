#include "graph/partition/box_product.h"

#include <algorithm>

namespace partita {
namespace {

BoxAxis AxisOf(const std::vector<Box>& boxes, int d) {
  BoxAxis axis{boxes[0][d]};
  bool is_sorted = true;
  for (const Box& box : boxes) {
    if (box[d] == axis.back()) continue;
    is_sorted &= axis.back() < box[d];
    axis.push_back(box[d]);
  }
  if (is_sorted) return axis;
  std::sort(axis.begin(), axis.end());
  axis.erase(std::unique(axis.begin(), axis.end()), axis.end());
  return axis;
}

}  // namespace

std::optional<BoxProduct> BoxProduct::Of(const std::vector<Box>& boxes) {
  BoxProduct product;
  size_t combinations = 1;
  for (int d = 0; d < boxes[0].rank(); ++d) {
    product.axes_.push_back(AxisOf(boxes, d));
    combinations *= product.axes_.back().size();
    if (combinations > boxes.size()) return std::nullopt;
  }
  if (combinations < boxes.size()) return std::nullopt;
  product.FindBoxes(boxes);
  return product;
}

void BoxProduct::FindBoxes(const std::vector<Box>& boxes) {
  strides_.resize(axes_.size());
  int32_t stride = 1;
  for (size_t d = axes_.size(); d-- > 0;) {
    strides_[d] = stride;
    stride *= static_cast<int32_t>(axes_[d].size());
  }
  boxes_.resize(boxes.size());
  for (size_t b = 0; b < boxes.size(); ++b) {
    int32_t combination = 0;
    for (size_t d = 0; d < axes_.size(); ++d) {
      const BoxAxis& axis = axes_[d];
      if (axis.size() == 1) continue;
      const auto at = std::lower_bound(axis.begin(), axis.end(), boxes[b][static_cast<int>(d)]);
      combination += static_cast<int32_t>(at - axis.begin()) * strides_[d];
    }
    boxes_[static_cast<size_t>(combination)] = static_cast<int32_t>(b);
  }
}

std::optional<BoxProduct> BoxProduct::OfDisjoint(const std::vector<Box>& boxes) {
  auto product = Of(boxes);
  if (product.has_value() && !product->IsDisjoint()) product.reset();
  return product;
}

bool BoxProduct::IsDisjoint() const {
  return std::all_of(axes_.begin(), axes_.end(), [](const BoxAxis& axis) {
    return std::adjacent_find(axis.begin(), axis.end(),
                              [](Interval a, Interval b) { return a.hi > b.lo; }) == axis.end();
  });
}

}  // namespace partita
