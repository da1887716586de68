#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "graph/box.h"
#include "graph/support/check.h"

namespace partita {

// Elements of a tensor that stand for all of it in a symbolic run.
//
// Every box that tasks name cuts each dimension at its two ends; the cells between cuts lie wholly
// inside or outside every box. Within a cell data moves from one row-major place to another, so
// where an element goes is an affine function of its indices, on both sides. Two affine functions
// that agree on a cell's first element and on its neighbours along every dimension are equal: these
// elements, and the last one (ranges of a buffer that hold first and last hold all between), are
// the probes of the cell.
class ProbeGrid {
 public:
  using Index = absl::InlinedVector<int64_t, 5>;

  explicit ProbeGrid(const Shape& shape) : cuts_(shape.size()) {
    for (size_t d = 0; d < shape.size(); ++d) cuts_[d] = {0, shape[d]};
  }

  // Boxes inside the tensor. All must be added before Finish.
  void AddBox(const Box& box) {
    for (int d = 0; d < box.rank(); ++d) {
      cuts_[static_cast<size_t>(d)].push_back(box[d].lo);
      cuts_[static_cast<size_t>(d)].push_back(box[d].hi);
    }
  }
  void Finish() {
    cells_ = 1;
    for (auto& cuts : cuts_) {
      std::sort(cuts.begin(), cuts.end());
      cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
      cells_ *= static_cast<int64_t>(cuts.size()) - 1;
    }
  }

  int rank() const { return static_cast<int>(cuts_.size()); }
  // Probes are numbered below this; not every number is in use.
  int64_t probe_limit() const { return cells_ * (rank() + 2); }

  // Calls visit(probe, index) for the probes in a box, whose ends are among the cuts.
  template <class Visit>
  void ForEach(const Box& box, Visit visit) const {
    if (box.empty()) return;
    absl::InlinedVector<size_t, 5> first, last, at;
    for (int d = 0; d < box.rank(); ++d) {
      first.push_back(CutAt(d, box[d].lo));
      last.push_back(CutAt(d, box[d].hi));
    }
    at = first;
    for (;;) {
      VisitCell(at, visit);
      int d = rank() - 1;
      while (d >= 0 && ++at[static_cast<size_t>(d)] == last[static_cast<size_t>(d)]) {
        at[static_cast<size_t>(d)] = first[static_cast<size_t>(d)];
        --d;
      }
      if (d < 0) return;
    }
  }

 private:
  size_t CutAt(int d, int64_t value) const {
    const auto& cuts = cuts_[static_cast<size_t>(d)];
    const auto it = std::lower_bound(cuts.begin(), cuts.end(), value);
    CHECK(it != cuts.end() && *it == value) << "a box that the grid was not told of";
    return static_cast<size_t>(it - cuts.begin());
  }

  template <class Visit>
  void VisitCell(const absl::InlinedVector<size_t, 5>& at, Visit& visit) const {
    int64_t cell = 0;
    Index low, high;
    for (size_t d = 0; d < at.size(); ++d) {
      cell = cell * (static_cast<int64_t>(cuts_[d].size()) - 1) + static_cast<int64_t>(at[d]);
      low.push_back(cuts_[d][at[d]]);
      high.push_back(cuts_[d][at[d] + 1] - 1);
    }
    const int64_t probe = cell * (rank() + 2);
    visit(probe, low);
    int64_t steps = 0;  // distance from the first to the last element
    for (size_t d = 0; d < at.size(); ++d) {
      if (high[d] == low[d]) continue;
      steps += high[d] - low[d];
      Index next = low;
      ++next[d];
      visit(probe + 1 + static_cast<int64_t>(d), next);
    }
    if (steps > 1) visit(probe + 1 + rank(), high);
  }

  std::vector<std::vector<int64_t>> cuts_;  // indexed by dimension
  int64_t cells_ = 0;
};

// Offset of an element in a row-major buffer that holds `box`.
inline int64_t OffsetIn(const Box& box, const ProbeGrid::Index& index) {
  int64_t offset = 0;
  for (int d = 0; d < box.rank(); ++d) {
    offset = offset * box[d].size() + index[static_cast<size_t>(d)] - box[d].lo;
  }
  return offset;
}

}  // namespace partita
