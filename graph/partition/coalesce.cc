#include "graph/partition/coalesce.h"

#include <algorithm>
#include <utility>

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

}  // namespace

Boxes Coalesce(Boxes boxes) {
  if (boxes.empty() || boxes[0].rank() == 0) return boxes;
  for (int d = boxes[0].rank(); d-- > 0;) boxes = MergeAlong(std::move(boxes), d);
  std::sort(boxes.begin(), boxes.end());
  return boxes;
}

}  // namespace partita
