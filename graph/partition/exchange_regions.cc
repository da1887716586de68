#include "graph/partition/exchange_regions.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "graph/partition/product_regions.h"

namespace partita {
namespace {

// Disjoint boxes; mostly one.
using Boxes = absl::InlinedVector<Box, 1>;

// The grid made by all ends of all boxes.
class Grid {
 public:
  Grid(const DistinctBoxes& a, const DistinctBoxes& b) {
    const int rank = b.boxes[0].rank();
    cuts_.resize(static_cast<size_t>(rank));
    for (const DistinctBoxes* side : {&a, &b}) {
      for (const Box& box : side->boxes) {
        for (int d = 0; d < rank; ++d) {
          cuts_[static_cast<size_t>(d)].push_back(box[d].lo);
          cuts_[static_cast<size_t>(d)].push_back(box[d].hi);
        }
      }
    }
    for (auto& cut : cuts_) {
      std::sort(cut.begin(), cut.end());
      cut.erase(std::unique(cut.begin(), cut.end()), cut.end());
    }
  }

  // Calls visit(cell number) for every cell of `box`; numbers are row-major.
  template <class Visit>
  void ForEachCell(const Box& box, Visit&& visit) const {
    Walk(box, 0, 0, visit);
  }

  // Cells of the whole grid; numbers are below.
  int64_t cells() const {
    int64_t cells = 1;
    for (const auto& cut : cuts_) cells *= static_cast<int64_t>(cut.size()) - 1;
    return cells;
  }

  Box CellBox(int64_t cell) const {
    Box box(static_cast<int>(cuts_.size()));
    for (size_t d = cuts_.size(); d-- > 0;) {
      const auto width = static_cast<int64_t>(cuts_[d].size()) - 1;
      const auto k = static_cast<size_t>(cell % width);
      box[static_cast<int>(d)] = {cuts_[d][k], cuts_[d][k + 1]};
      cell /= width;
    }
    return box;
  }

 private:
  template <class Visit>
  void Walk(const Box& box, size_t d, int64_t prefix, Visit& visit) const {
    if (d == cuts_.size()) {
      visit(prefix);
      return;
    }
    const auto& cut = cuts_[d];
    const Interval range = box[static_cast<int>(d)];
    auto k = static_cast<int64_t>(std::lower_bound(cut.begin(), cut.end(), range.lo) - cut.begin());
    const auto width = static_cast<int64_t>(cut.size()) - 1;
    for (; cut[static_cast<size_t>(k)] < range.hi; ++k) Walk(box, d + 1, prefix * width + k, visit);
  }

  std::vector<std::vector<int64_t>> cuts_;
};

// Joins boxes that touch along dimension d and agree in all others.
Boxes MergeAlong(Boxes boxes, int d) {
  std::sort(boxes.begin(), boxes.end(), [d](const Box& a, const Box& b) {
    for (int k = 0; k < a.rank(); ++k) {
      if (k != d && a[k] != b[k]) return a[k] < b[k];
    }
    return a[d].lo < b[d].lo;
  });
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

Boxes Coalesce(Boxes boxes) {
  if (boxes.empty() || boxes[0].rank() == 0) return boxes;
  for (int d = boxes[0].rank(); d-- > 0;) boxes = MergeAlong(std::move(boxes), d);
  std::sort(boxes.begin(), boxes.end());
  return boxes;
}

// Members of several distinct boxes, ascending; `scratch` is overwritten.
std::span<const int32_t> MembersOf(std::span<const int32_t> ids, const DistinctBoxes& distinct,
                                   std::vector<int32_t>& scratch, SpanArena& lists) {
  if (ids.size() == 1) return distinct.members[static_cast<size_t>(ids[0])];
  scratch.clear();
  for (int32_t id : ids) {
    const auto& list = distinct.members[static_cast<size_t>(id)];
    scratch.insert(scratch.end(), list.begin(), list.end());
  }
  std::sort(scratch.begin(), scratch.end());
  return lists.Copy<int32_t>(scratch);
}

bool Overlap(const Box& a, const Box& b) {
  for (int d = 0; d < a.rank(); ++d) {
    if (a[d].lo >= b[d].hi || b[d].lo >= a[d].hi) return false;
  }
  return true;
}

bool CornerBefore(const Box& x, const Box& y) {
  for (int d = 0; d < x.rank(); ++d) {
    if (x[d].lo != y[d].lo) return x[d].lo < y[d].lo;
  }
  return false;
}

// Numbers of boxes in row-major order of their corners, which all differ. Sorts the corners' places
// in the tensor if those fit into 64 bits.
std::vector<size_t> OrderOfCorners(const std::vector<Box>& boxes) {
  std::vector<size_t> order(boxes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (boxes.empty()) return order;
  Box hull = boxes[0];
  for (const Box& box : boxes) {
    for (int d = 0; d < hull.rank(); ++d) {
      hull[d] = {std::min(hull[d].lo, box[d].lo), std::max(hull[d].hi, box[d].hi)};
    }
  }
  double volume = 1;
  for (int d = 0; d < hull.rank(); ++d) volume *= static_cast<double>(hull[d].size());
  if (volume > 9e18) {
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return CornerBefore(boxes[a], boxes[b]); });
    return order;
  }
  std::vector<std::pair<int64_t, size_t>> places;
  places.reserve(boxes.size());
  for (size_t k = 0; k < boxes.size(); ++k) {
    int64_t place = 0;
    for (int d = 0; d < hull.rank(); ++d) {
      place = place * hull[d].size() + (boxes[k][d].lo - hull[d].lo);
    }
    places.emplace_back(place, k);
  }
  std::sort(places.begin(), places.end());
  for (size_t k = 0; k < order.size(); ++k) order[k] = places[k].second;
  return order;
}

// Boxes by where they begin along the dimension in which they begin at most places.
class SortedBoxes {
 public:
  explicit SortedBoxes(const std::vector<Box>& boxes) : boxes_(boxes) {
    size_t most = 0;
    for (int d = 0; d < boxes[0].rank(); ++d) {
      absl::flat_hash_set<int64_t> places;
      for (const Box& box : boxes) places.insert(box[d].lo);
      if (places.size() <= most) continue;
      most = places.size();
      dimension_ = d;
    }
    for (size_t b = 0; b < boxes.size(); ++b) order_.push_back(b);
    if (dimension_ < 0) return;
    std::stable_sort(order_.begin(), order_.end(),
                     [this](size_t a, size_t b) { return Of(a).lo < Of(b).lo; });
    for (size_t b : order_) {
      reach_.push_back(reach_.empty() ? Of(b).hi : std::max(reach_.back(), Of(b).hi));
    }
  }

  // Calls visit(number) for all boxes that overlap with this one, while it answers true.
  template <class Visit>
  void ForEachOverlap(const Box& box, Visit&& visit) const {
    size_t k = 0;
    if (dimension_ >= 0) {
      k = static_cast<size_t>(std::upper_bound(reach_.begin(), reach_.end(), box[dimension_].lo) -
                              reach_.begin());
    }
    for (; k < order_.size(); ++k) {
      if (dimension_ >= 0 && Of(order_[k]).lo >= box[dimension_].hi) return;
      if (Overlap(boxes_[order_[k]], box) && !visit(order_[k])) return;
    }
  }

 private:
  Interval Of(size_t box) const { return boxes_[box][dimension_]; }

  const std::vector<Box>& boxes_;
  int dimension_ = -1;  // none: the boxes have none
  std::vector<size_t> order_;
  std::vector<int64_t> reach_;  // by place in the order: the farthest end so far
};

// A region of one box, which one distinct box of each side covers.
struct Common {
  size_t source, want;
};

// The regions of these boxes, one each, in row-major order.
Regions RegionsOf(std::vector<Box> boxes, const std::vector<Common>& common,
                  const DistinctBoxes& sources, const DistinctBoxes& wants) {
  Regions regions;
  regions.boxes = std::move(boxes);
  regions.list.reserve(common.size());
  for (size_t k : OrderOfCorners(regions.boxes)) {
    regions.list.push_back(
        {{&regions.boxes[k], 1}, sources.members[common[k].source], wants.members[common[k].want]});
  }
  return regions;
}

bool AreDisjoint(const std::vector<Box>& boxes, const SortedBoxes& sorted) {
  for (size_t b = 0; b < boxes.size(); ++b) {
    bool alone = true;
    sorted.ForEachOverlap(boxes[b], [&](size_t other) { return alone = other == b; });
    if (!alone) return false;
  }
  return true;
}

// Both sides cut into boxes that do not overlap: the regions are what a source and a wanted box have
// in common, in the order in which the grid would find them.
std::optional<Regions> DisjointRegions(const DistinctBoxes& sources, const DistinctBoxes& wants) {
  const SortedBoxes sorted(sources.boxes);
  if (!AreDisjoint(sources.boxes, sorted)) return std::nullopt;
  if (!AreDisjoint(wants.boxes, SortedBoxes(wants.boxes))) return std::nullopt;
  std::vector<Box> boxes;
  std::vector<Common> common;
  for (size_t w = 0; w < wants.boxes.size(); ++w) {
    sorted.ForEachOverlap(wants.boxes[w], [&](size_t s) {
      boxes.push_back(*Intersect(sources.boxes[s], wants.boxes[w]));
      common.push_back({s, w});
      return true;
    });
  }
  return RegionsOf(std::move(boxes), common, sources, wants);
}

// The cells that some box covers, in row-major order.
class CoveredCells {
 public:
  CoveredCells(const Grid& grid, const std::vector<Box>& boxes) {
    for (const Box& box : boxes) {
      grid.ForEachCell(box, [this](int64_t cell) { cells_.push_back(cell); });
    }
    if (grid.cells() <= kMostEmpty * static_cast<int64_t>(cells_.size())) {
      place_of_.assign(static_cast<size_t>(grid.cells()), -1);
      for (int64_t cell : cells_) place_of_[static_cast<size_t>(cell)] = 0;
      cells_.clear();
      for (size_t cell = 0; cell < place_of_.size(); ++cell) {
        if (place_of_[cell] < 0) continue;
        place_of_[cell] = static_cast<int32_t>(cells_.size());
        cells_.push_back(static_cast<int64_t>(cell));
      }
    } else {
      std::sort(cells_.begin(), cells_.end());
      cells_.erase(std::unique(cells_.begin(), cells_.end()), cells_.end());
    }
  }

  size_t size() const { return cells_.size(); }
  int64_t cell(size_t place) const { return cells_[place]; }
  // -1: no box covers the cell.
  int32_t PlaceOf(int64_t cell) const {
    if (!place_of_.empty()) return place_of_[static_cast<size_t>(cell)];
    const auto at = std::lower_bound(cells_.begin(), cells_.end(), cell);
    return at == cells_.end() || *at != cell ? -1 : static_cast<int32_t>(at - cells_.begin());
  }

 private:
  static constexpr int64_t kMostEmpty = 16;  // cells of the grid for each covered one

  std::vector<int64_t> cells_;
  std::vector<int32_t> place_of_;  // indexed by cell; empty where most are not covered
};

// For each of some cells, by place, the numbers of the boxes of one side that cover it, ascending.
class CellLists {
 public:
  CellLists(const Grid& grid, const CoveredCells& cells, const std::vector<Box>& boxes) {
    const auto for_each = [&](auto&& visit) {
      for (size_t b = 0; b < boxes.size(); ++b) {
        grid.ForEachCell(boxes[b], [&](int64_t cell) {
          const int32_t place = cells.PlaceOf(cell);
          if (place >= 0) visit(b, static_cast<size_t>(place));
        });
      }
    };
    begin_.assign(cells.size() + 1, 0);
    for_each([&](size_t, size_t place) { ++begin_[place + 1]; });
    for (size_t c = 1; c < begin_.size(); ++c) begin_[c] += begin_[c - 1];
    boxes_.resize(begin_.back());
    std::vector<size_t> next(begin_.begin(), begin_.end() - 1);
    for_each([&](size_t box, size_t place) { boxes_[next[place]++] = static_cast<int32_t>(box); });
  }

  std::span<const int32_t> Of(size_t place) const {
    return {boxes_.data() + begin_[place], boxes_.data() + begin_[place + 1]};
  }

 private:
  std::vector<size_t> begin_;  // indexed by place
  std::vector<int32_t> boxes_;
};

// What covers and wants a cell, as numbers of distinct boxes.
struct Cell {
  std::span<const int32_t> sources, wants;

  friend bool operator==(const Cell& a, const Cell& b) {
    return std::ranges::equal(a.sources, b.sources) && std::ranges::equal(a.wants, b.wants);
  }
  template <class H>
  friend H AbslHashValue(H h, const Cell& cell) {
    h = H::combine_contiguous(std::move(h), cell.sources.data(), cell.sources.size());
    h = H::combine_contiguous(std::move(h), cell.wants.data(), cell.wants.size());
    return H::combine(std::move(h), cell.sources.size(), cell.wants.size());
  }
};

// Any boxes: cell by cell.
Regions GridRegions(const DistinctBoxes& sources, const DistinctBoxes& wants, SpanArena& lists) {
  const Grid grid(sources, wants);
  const CoveredCells cells(grid, wants.boxes);
  const CellLists wanted(grid, cells, wants.boxes);
  const CellLists covered(grid, cells, sources.boxes);
  absl::flat_hash_map<Cell, size_t> index;
  Regions regions;
  std::vector<Boxes> boxes;  // of each region
  std::vector<int32_t> members;
  for (size_t place = 0; place < cells.size(); ++place) {
    const Cell cell{covered.Of(place), wanted.Of(place)};
    if (cell.sources.empty()) continue;
    const auto [it, added] = index.try_emplace(cell, boxes.size());
    if (added) {
      const auto pieces = MembersOf(cell.sources, sources, members, lists);
      regions.list.push_back({{}, pieces, MembersOf(cell.wants, wants, members, lists)});
      boxes.emplace_back();
    }
    boxes[it->second].push_back(grid.CellBox(cells.cell(place)));
  }
  size_t count = 0;
  for (Boxes& each : boxes) {
    if (each.size() > 1) each = Coalesce(std::move(each));
    count += each.size();
  }
  regions.boxes.reserve(count);
  for (size_t r = 0; r < boxes.size(); ++r) {
    for (Box& box : boxes[r]) regions.boxes.push_back(std::move(box));
    regions.list[r].boxes = std::span<const Box>(regions.boxes).last(boxes[r].size());
  }
  return regions;
}

}  // namespace

Regions FindRegions(const DistinctBoxes& sources, const DistinctBoxes& wants, SpanArena& lists) {
  if (auto product = ProductRegions(sources, wants, lists)) return *std::move(product);
  if (auto disjoint = DisjointRegions(sources, wants)) return *std::move(disjoint);
  return GridRegions(sources, wants, lists);
}

}  // namespace partita
