#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/box.h"

namespace partita {

// Distinct intervals of some boxes along one dimension, ascending.
using BoxAxis = std::vector<Interval>;

// Distinct boxes that are all combinations of their intervals along each dimension.
class BoxProduct {
 public:
  // nullopt where some combination is missing. Precondition: boxes are distinct, at least one, all of
  // one rank.
  static std::optional<BoxProduct> Of(const std::vector<Box>& boxes);
  // The same; nullopt, too, where two of the boxes have an element in common.
  static std::optional<BoxProduct> OfDisjoint(const std::vector<Box>& boxes);

  size_t rank() const { return axes_.size(); }
  const BoxAxis& axis(size_t d) const { return axes_[d]; }
  // Combinations that follow each other along dimension d are this far apart.
  int32_t stride(size_t d) const { return strides_[d]; }
  // Number of the box of a combination: the sum of the intervals' places times the strides.
  int32_t BoxOf(int32_t combination) const { return boxes_[static_cast<size_t>(combination)]; }
  // Whether no two of the boxes have an element in common.
  bool IsDisjoint() const;

 private:
  void FindBoxes(const std::vector<Box>& boxes);

  std::vector<BoxAxis> axes_;
  std::vector<int32_t> strides_;  // indexed by dimension
  std::vector<int32_t> boxes_;    // indexed by combination
};

}  // namespace partita
