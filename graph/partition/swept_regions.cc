#include "graph/partition/swept_regions.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "graph/partition/coalesce.h"
#include "graph/partition/covers.h"
#include "graph/support/sort.h"

namespace partita {
namespace {

// Places [lo, hi) among the cuts of a dimension.
struct CutRange {
  int32_t lo = 0, hi = 0;

  friend bool operator==(const CutRange&, const CutRange&) = default;
};

// One side's boxes along one dimension, indexed by box.
using Ranges = std::vector<CutRange>;

// A dimension of the sweep: the ends of all boxes, ascending, and where each box begins and ends.
struct Dimension {
  int number = 0;  // in the tensor
  std::vector<int64_t> cuts;
  Ranges sources, wants;
  int64_t reach = 0;  // as ReachOf finds it
};

void AddEnds(const std::vector<Box>& boxes, int d, std::vector<int64_t>& ends) {
  Interval last;
  for (const Box& box : boxes) {
    if (box[d] == last) continue;
    last = box[d];
    ends.push_back(last.lo);
    ends.push_back(last.hi);
  }
}

Ranges RangesOf(const std::vector<Box>& boxes, int d, const std::vector<int64_t>& cuts) {
  const auto place = [&](int64_t at) {
    return static_cast<int32_t>(std::lower_bound(cuts.begin(), cuts.end(), at) - cuts.begin());
  };
  Ranges ranges;
  ranges.reserve(boxes.size());
  Interval last;
  for (const Box& box : boxes) {
    if (box[d] == last) {
      ranges.push_back(ranges.back());
    } else {
      last = box[d];
      ranges.push_back({place(last.lo), place(last.hi)});
    }
  }
  return ranges;
}

// Segments between cuts of a dimension that boxes reach into, of all boxes.
int64_t ReachOf(const Dimension& dimension) {
  int64_t reach = 0;
  for (const Ranges* ranges : {&dimension.sources, &dimension.wants}) {
    for (const CutRange range : *ranges) reach += range.hi - range.lo;
  }
  return reach;
}

// Dimensions along which not all boxes are alike. First those along which boxes reach into few segments:
// what is cut along one for all boxes is often not cut for those of a segment of another.
std::vector<Dimension> DimensionsOf(const std::vector<Box>& sources,
                                    const std::vector<Box>& wants) {
  std::vector<Dimension> dimensions;
  for (int d = 0; d < sources[0].rank(); ++d) {
    const auto differs = [&, d](const Box& box) { return box[d] != sources[0][d]; };
    if (std::ranges::none_of(sources, differs) && std::ranges::none_of(wants, differs)) continue;
    Dimension& dimension = dimensions.emplace_back();
    dimension.number = d;
    std::vector<int64_t>& cuts = dimension.cuts;
    AddEnds(sources, d, cuts);
    AddEnds(wants, d, cuts);
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    dimension.sources = RangesOf(sources, d, cuts);
    dimension.wants = RangesOf(wants, d, cuts);
    dimension.reach = ReachOf(dimension);
  }
  std::ranges::stable_sort(dimensions, std::less(), &Dimension::reach);
  return dimensions;
}

CutRange HullOf(std::span<const int32_t> ids, const Ranges& ranges) {
  CutRange hull = ranges[static_cast<size_t>(ids[0])];
  for (int32_t id : ids) {
    const CutRange range = ranges[static_cast<size_t>(id)];
    hull = {std::min(hull.lo, range.lo), std::max(hull.hi, range.hi)};
  }
  return hull;
}

CutRange Common(CutRange a, CutRange b) { return {std::max(a.lo, b.lo), std::min(a.hi, b.hi)}; }

// The cuts of a dimension that some boxes make inside a range, ascending.
class LocalCuts {
 public:
  void Begin(CutRange range) {
    range_ = range;
    cuts_.assign({range.lo, range.hi});
  }
  void Add(std::span<const int32_t> ids, const Ranges& ranges) {
    CutRange last = range_;
    for (int32_t id : ids) {
      const CutRange range = ranges[static_cast<size_t>(id)];
      if (range == last) continue;
      last = range;
      if (range.lo > range_.lo && range.lo < range_.hi) cuts_.push_back(range.lo);
      if (range.hi > range_.lo && range.hi < range_.hi) cuts_.push_back(range.hi);
    }
  }
  // All that were added, in order, each once.
  void Finish() {
    const auto size = static_cast<size_t>(range_.hi - range_.lo) + 1;
    if (place_.size() < size) place_.resize(size);
    if (size <= kDense * cuts_.size()) {
      std::fill_n(place_.begin(), size, -1);
      for (int32_t cut : cuts_) PlaceAt(cut) = 0;
      cuts_.clear();
      for (size_t k = 0; k < size; ++k) {
        if (place_[k] == 0) cuts_.push_back(range_.lo + static_cast<int32_t>(k));
      }
    } else {
      std::sort(cuts_.begin(), cuts_.end());
      cuts_.erase(std::unique(cuts_.begin(), cuts_.end()), cuts_.end());
    }
    for (size_t k = 0; k < cuts_.size(); ++k) PlaceAt(cuts_[k]) = static_cast<int32_t>(k);
  }

  size_t segments() const { return cuts_.size() - 1; }
  CutRange Segment(size_t k) const { return {cuts_[k], cuts_[k + 1]}; }
  // Segments [lo, hi) of a box that makes cuts here; none outside the range.
  CutRange SegmentsOf(CutRange box) const {
    const CutRange inside = Common(box, range_);
    if (inside.lo >= inside.hi) return {};
    return {place_[static_cast<size_t>(inside.lo - range_.lo)],
            place_[static_cast<size_t>(inside.hi - range_.lo)]};
  }

 private:
  static constexpr size_t kDense = 8;  // cuts of the dimension for each that is here

  int32_t& PlaceAt(int32_t cut) { return place_[static_cast<size_t>(cut - range_.lo)]; }

  CutRange range_;
  std::vector<int32_t> cuts_;
  std::vector<int32_t> place_;  // indexed by cut of the dimension, from the range's first
};

// For each segment between two cuts, the boxes that reach into it, ascending.
class SegmentLists {
 public:
  void Fill(std::span<const int32_t> ids, const Ranges& ranges, const LocalCuts& cuts) {
    begin_.assign(cuts.segments() + 2, 0);
    for (int32_t id : ids) {
      const CutRange reach = cuts.SegmentsOf(ranges[static_cast<size_t>(id)]);
      for (int32_t s = reach.lo; s < reach.hi; ++s) ++begin_[static_cast<size_t>(s) + 2];
    }
    for (size_t s = 2; s < begin_.size(); ++s) begin_[s] += begin_[s - 1];
    if (boxes_.size() < begin_.back()) boxes_.resize(begin_.back());
    for (int32_t id : ids) {
      const CutRange reach = cuts.SegmentsOf(ranges[static_cast<size_t>(id)]);
      for (int32_t s = reach.lo; s < reach.hi; ++s) {
        boxes_[begin_[static_cast<size_t>(s) + 1]++] = id;
      }
    }
  }

  std::span<const int32_t> Of(size_t segment) const {
    return {boxes_.data() + begin_[segment], boxes_.data() + begin_[segment + 1]};
  }

 private:
  std::vector<size_t> begin_;  // indexed by segment, and what comes after the last
  std::vector<int32_t> boxes_;
};

// Members of several boxes of one side, ascending. What covers a cell often covers the next one.
class MemberLists {
 public:
  MemberLists(const DistinctBoxes& distinct, SpanArena& lists)
      : distinct_(distinct), lists_(lists) {}

  std::span<const int32_t> Of(std::span<const int32_t> ids) {
    if (ids.size() == 1) return distinct_.members[static_cast<size_t>(ids[0])];
    if (std::ranges::equal(ids, last_)) return members_of_last_;
    members_.clear();
    for (int32_t id : ids) {
      const auto& list = distinct_.members[static_cast<size_t>(id)];
      members_.insert(members_.end(), list.begin(), list.end());
    }
    SortUnlessSorted(members_.begin(), members_.end());
    last_.assign(ids.begin(), ids.end());
    return members_of_last_ = lists_.Copy<int32_t>(members_);
  }

 private:
  const DistinctBoxes& distinct_;
  SpanArena& lists_;
  std::vector<int32_t> members_, last_;
  std::span<const int32_t> members_of_last_;
};

// Lists of boxes in chunks that never move; a chunk is twice as large as the one before.
class BoxChunks {
 public:
  explicit BoxChunks(std::vector<std::vector<Box>>& chunks) : chunks_(chunks) {}

  std::span<const Box> Add(std::span<const Box> boxes) {
    if (chunks_.empty() || chunks_.back().capacity() - chunks_.back().size() < boxes.size()) {
      const size_t next = chunks_.empty() ? kFirst : 2 * chunks_.back().capacity();
      chunks_.emplace_back().reserve(std::max(std::min(next, kMost), boxes.size()));
    }
    std::vector<Box>& chunk = chunks_.back();
    chunk.insert(chunk.end(), boxes.begin(), boxes.end());
    return std::span<const Box>(chunk).last(boxes.size());
  }

 private:
  static constexpr size_t kFirst = 16, kMost = 65536;  // boxes

  std::vector<std::vector<Box>>& chunks_;
};

// Regions in the order in which they are found, with their cells, which lie anywhere.
class RegionCollector {
 public:
  RegionCollector(const DistinctBoxes& sources, const DistinctBoxes& wants, SpanArena& lists)
      : pieces_(sources, lists), demands_(wants, lists) {}

  // `is_whole`: no other cell has the same covers.
  void Add(const Box& cell, const Covers& covers, bool is_whole) {
    if (!is_whole) {
      const auto it = index_.find(covers);
      if (it != index_.end()) return AddTo(chains_[it->second], cell);
      index_.emplace(Covers{keys_.Copy(covers.sources), keys_.Copy(covers.wants)}, chains_.size());
      chains_.push_back({regions_.list.size()});
    }
    regions_.list.push_back({BoxChunks(regions_.boxes).Add({&cell, 1}), pieces_.Of(covers.sources),
                             demands_.Of(covers.wants)});
  }

  // `in_order`: the cells are those of a walk in row-major order.
  Regions Finish(bool in_order) && {
    for (const Chain& chain : chains_) {
      if (chain.count == 0) continue;
      Region& region = regions_.list[chain.region];
      Boxes cells;
      cells.reserve(chain.count + 1);
      cells.push_back(region.boxes[0]);
      for (int32_t k = chain.first; k >= 0; k = more_[static_cast<size_t>(k)].next) {
        cells.push_back(std::move(more_[static_cast<size_t>(k)].cell));
      }
      Boxes joined = Coalesce(std::move(cells));
      if (!in_order && joined.size() > 1) joined = CutAndCoalesce(joined);
      region.boxes = BoxChunks(regions_.boxes).Add({joined.data(), joined.size()});
    }
    return std::move(regions_);
  }

 private:
  // The cells of a region after its first, in their order: places in more_.
  struct Chain {
    size_t region = 0;
    int32_t first = -1, last = -1;
    size_t count = 0;
  };
  struct Cell {
    Box cell;
    int32_t next = -1;
  };

  void AddTo(Chain& chain, const Box& cell) {
    const auto place = static_cast<int32_t>(more_.size());
    more_.push_back({cell});
    (chain.last < 0 ? chain.first : more_[static_cast<size_t>(chain.last)].next) = place;
    chain.last = place;
    ++chain.count;
  }

  MemberLists pieces_, demands_;
  Regions regions_;
  std::vector<Chain> chains_;  // of regions that may have several cells
  std::vector<Cell> more_;
  SpanArena keys_;
  absl::flat_hash_map<Covers, size_t> index_;  // places in chains_
};

// Sorts regions by their first corners in row-major order.
void SortByFirstCorner(std::vector<Region>& regions) {
  const auto is_before = [](const Box& a, const Box& b) {
    for (int d = 0; d < a.rank(); ++d) {
      if (a[d].lo != b[d].lo) return a[d].lo < b[d].lo;
    }
    return false;
  };
  std::vector<std::pair<const Box*, Region>> sorted;
  sorted.reserve(regions.size());
  for (const Region& region : regions) {
    sorted.emplace_back(&*std::ranges::min_element(region.boxes, is_before), region);
  }
  std::ranges::sort(sorted,
                    [&](const auto& a, const auto& b) { return is_before(*a.first, *b.first); });
  for (size_t k = 0; k < regions.size(); ++k) regions[k] = sorted[k].second;
}

// Walks through the cells, dimension by dimension.
class BoxSweep {
 public:
  BoxSweep(const DistinctBoxes& sources, const DistinctBoxes& wants, SpanArena& lists)
      : dimensions_(DimensionsOf(sources.boxes, wants.boxes)),
        levels_(dimensions_.size()),
        segments_(dimensions_.size()),
        cell_(sources.boxes[0]),
        collector_(sources, wants, lists) {}

  Regions Run(size_t sources, size_t wants) && {
    std::vector<int32_t> ids(std::max(sources, wants));
    std::iota(ids.begin(), ids.end(), 0);
    const std::span<const int32_t> all(ids);
    Visit(0, all.first(sources), all.first(wants));
    const bool in_order = std::ranges::is_sorted(dimensions_, std::less(), &Dimension::number);
    Regions regions = std::move(collector_).Finish(in_order);
    if (!in_order) SortByFirstCorner(regions.list);
    return regions;
  }

 private:
  // What is open while the sweep goes along a dimension.
  struct Level {
    LocalCuts cuts;
    SegmentLists sources, wants;
  };

  // Cells of the segment at hand of all dimensions before the k-th, which these boxes reach into.
  void Visit(size_t k, std::span<const int32_t> sources, std::span<const int32_t> wants) {
    if (k == dimensions_.size()) {
      return collector_.Add(cell_, {sources, wants}, IsWhole(sources, wants));
    }
    const Ranges &from = dimensions_[k].sources, &to = dimensions_[k].wants;
    const CutRange common = Common(HullOf(sources, from), HullOf(wants, to));
    if (common.lo >= common.hi) return;
    if (sources.size() == 1 && wants.size() == 1) return VisitSegment(k, common, sources, wants);
    Level& level = levels_[k];
    level.cuts.Begin(common);
    level.cuts.Add(sources, from);
    level.cuts.Add(wants, to);
    level.cuts.Finish();
    level.sources.Fill(sources, from, level.cuts);
    level.wants.Fill(wants, to, level.cuts);
    for (size_t s = 0; s < level.cuts.segments(); ++s) {
      if (level.sources.Of(s).empty() || level.wants.Of(s).empty()) continue;
      VisitSegment(k, level.cuts.Segment(s), level.sources.Of(s), level.wants.Of(s));
    }
  }

  void VisitSegment(size_t k, CutRange segment, std::span<const int32_t> sources,
                    std::span<const int32_t> wants) {
    const Dimension& dimension = dimensions_[k];
    segments_[k] = segment;
    cell_[dimension.number] = {dimension.cuts[static_cast<size_t>(segment.lo)],
                               dimension.cuts[static_cast<size_t>(segment.hi)]};
    Visit(k + 1, sources, wants);
  }

  // Whether the cell at hand is all that these boxes have in common.
  bool IsWhole(std::span<const int32_t> sources, std::span<const int32_t> wants) const {
    for (size_t k = 0; k < dimensions_.size(); ++k) {
      bool begins = false, ends = false;
      const auto see = [&](std::span<const int32_t> ids, const Ranges& ranges) {
        for (size_t i = 0; i < ids.size() && !(begins && ends); ++i) {
          const CutRange range = ranges[static_cast<size_t>(ids[i])];
          begins |= range.lo == segments_[k].lo;
          ends |= range.hi == segments_[k].hi;
        }
      };
      see(sources, dimensions_[k].sources);
      see(wants, dimensions_[k].wants);
      if (!begins || !ends) return false;
    }
    return true;
  }

  const std::vector<Dimension> dimensions_;
  std::vector<Level> levels_;       // indexed like dimensions_
  std::vector<CutRange> segments_;  // of the cell at hand, indexed like dimensions_
  Box cell_;
  RegionCollector collector_;
};

}  // namespace

Regions SweptRegions(const DistinctBoxes& sources, const DistinctBoxes& wants, SpanArena& lists) {
  return BoxSweep(sources, wants, lists).Run(sources.boxes.size(), wants.boxes.size());
}

}  // namespace partita
