#include "graph/partition/coalesce.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "graph/support/sort.h"

namespace partita {
namespace {

// Joins boxes that touch along dimension d and agree in all others.
Boxes MergeAlong(Boxes boxes, int d) {
  const auto is_same = [&](const Box& box) { return box[d] == boxes[0][d]; };
  if (std::all_of(boxes.begin(), boxes.end(), is_same)) return boxes;
  const auto before = [d](const Box& a, const Box& b) {
    for (int k = 0; k < a.rank(); ++k) {
      if (k != d && a[k] != b[k]) return a[k] < b[k];
    }
    return a[d].lo < b[d].lo;
  };
  SortUnlessSorted(boxes.begin(), boxes.end(), before);
  Boxes merged;
  for (Box& box : boxes) {
    if (!merged.empty()) {
      Box& last = merged.back();
      bool joins = last[d].hi == box[d].lo;
      for (int k = 0; k < box.rank(); ++k) joins &= k == d || last[k] == box[k];
      if (joins) {
        last[d].hi = box[d].hi;
        continue;
      }
    }
    merged.push_back(std::move(box));
  }
  return merged;
}

// Cuts disjoint boxes along each dimension at the ends of those that agree in all dimensions before it.
class RowMajorCuts {
 public:
  Boxes Of(const Boxes& boxes) {
    std::vector<const Box*> all;
    for (const Box& box : boxes) all.push_back(&box);
    cell_ = boxes[0];
    Cut(0, all);
    return std::move(cells_);
  }

 private:
  // Cells of the segment at hand of all dimensions before d, which these boxes reach into.
  void Cut(int d, const std::vector<const Box*>& boxes) {
    if (d == cell_.rank()) return cells_.push_back(cell_);
    std::vector<int64_t> cuts;
    for (const Box* box : boxes) {
      cuts.push_back((*box)[d].lo);
      cuts.push_back((*box)[d].hi);
    }
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    const auto place_of = [&](int64_t end) {
      return std::lower_bound(cuts.begin(), cuts.end(), end) - cuts.begin();
    };
    std::vector<std::vector<const Box*>> reaching(cuts.size() - 1);  // into each segment
    for (const Box* box : boxes) {
      const auto end = place_of((*box)[d].hi);
      for (auto k = place_of((*box)[d].lo); k < end; ++k) {
        reaching[static_cast<size_t>(k)].push_back(box);
      }
    }
    for (size_t k = 0; k < reaching.size(); ++k) {
      if (reaching[k].empty()) continue;
      cell_[d] = {cuts[k], cuts[k + 1]};
      Cut(d + 1, reaching[k]);
    }
  }

  Box cell_;
  Boxes cells_;
};

}  // namespace

Boxes CutAndCoalesce(const Boxes& boxes) { return Coalesce(RowMajorCuts().Of(boxes)); }

Boxes Coalesce(Boxes boxes) {
  if (boxes.empty() || boxes[0].rank() == 0) return boxes;
  for (int d = boxes[0].rank(); d-- > 0;) boxes = MergeAlong(std::move(boxes), d);
  std::sort(boxes.begin(), boxes.end());
  return boxes;
}

}  // namespace partita
