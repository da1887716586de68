#include "graph/partition/product_regions.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "graph/partition/box_product.h"
#include "graph/partition/covers.h"

namespace partita {
namespace {

// A region along one dimension: the indices that the same intervals of each side cover.
struct LineRegion {
  absl::InlinedVector<Interval, 1> intervals;  // disjoint, ascending; as few as there can be
  // Places of intervals in the axes, times the strides; not empty.
  std::span<const int32_t> sources, wants;
};

// The intervals of an axis that cover the index at hand, as a sweep along the axis passes it.
class Sweep {
 public:
  Sweep(const BoxAxis& axis, int32_t stride) : axis_(axis), stride_(stride) {}

  // The next index after `at` at which an interval begins or ends; `none` if there is no more.
  int64_t NextCut(int64_t at, int64_t none) const {
    int64_t next = none;
    for (int32_t k : active_) next = std::min<int64_t>(next, Of(k).hi);
    if (next_ < axis_.size() && axis_[next_].lo > at) {
      next = std::min<int64_t>(next, axis_[next_].lo);
    }
    return next;
  }
  void MoveTo(int64_t at) {
    std::erase_if(active_, [&](int32_t k) { return Of(k).hi <= at; });
    for (; next_ < axis_.size() && axis_[next_].lo <= at; ++next_) {
      active_.push_back(static_cast<int32_t>(next_) * stride_);
    }
  }
  std::span<const int32_t> active() const { return active_; }

 private:
  Interval Of(int32_t place) const { return axis_[static_cast<size_t>(place / stride_)]; }

  const BoxAxis& axis_;
  const int32_t stride_;
  size_t next_ = 0;              // interval that has not begun
  std::vector<int32_t> active_;  // ascending
};

// Regions along dimension d, by their first index.
std::vector<LineRegion> LineRegionsOf(const BoxProduct& sources, const BoxProduct& wants, size_t d,
                                      SpanArena& lists) {
  constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
  Sweep source(sources.axis(d), sources.stride(d)), want(wants.axis(d), wants.stride(d));
  std::vector<LineRegion> regions;
  absl::flat_hash_map<Covers, size_t> index;
  for (int64_t at = std::min(sources.axis(d)[0].lo, wants.axis(d)[0].lo); at != kEnd;) {
    source.MoveTo(at);
    want.MoveTo(at);
    const int64_t next = std::min(source.NextCut(at, kEnd), want.NextCut(at, kEnd));
    if (!source.active().empty() && !want.active().empty()) {
      auto it = index.find({source.active(), want.active()});
      if (it == index.end()) {
        const Covers covers{lists.Copy(source.active()), lists.Copy(want.active())};
        it = index.emplace(covers, regions.size()).first;
        regions.push_back({{}, covers.sources, covers.wants});
      }
      regions[it->second].intervals.push_back({at, next});
    }
    at = next;
  }
  return regions;
}

// Sums of one place of each list.
void AddCombinations(std::span<const std::span<const int32_t>> places, int32_t sum,
                     std::vector<int32_t>& combinations) {
  if (places.empty()) return combinations.push_back(sum);
  for (int32_t place : places[0]) AddCombinations(places.subspan(1), sum + place, combinations);
}

// Goes through the combinations of one region along each dimension, the last dimension first.
class RegionWalk {
 public:
  RegionWalk(const std::vector<std::vector<LineRegion>>& lines, const DistinctBoxes& sources,
             const DistinctBoxes& wants, SpanArena& lists)
      : lines_(lines), sources_(sources), wants_(wants), lists_(lists), at_(lines.size(), 0) {}

  Regions Walk(const BoxProduct& sources, const BoxProduct& wants) {
    Regions regions;
    size_t count = 1, boxes = 1;
    for (const std::vector<LineRegion>& line : lines_) {
      size_t intervals = 0;
      for (const LineRegion& region : line) intervals += region.intervals.size();
      count *= line.size();
      boxes *= intervals;
    }
    regions.list.reserve(count);
    std::vector<Box>& all = regions.boxes.emplace_back();
    all.reserve(boxes);
    for (size_t r = 0; r < count; ++r, Next()) {
      const size_t first = all.size();
      AddBoxes(0, Box(static_cast<int>(lines_.size())), all);
      regions.list.push_back({std::span<const Box>(all).subspan(first),
                              MembersOf(sources_, sources, &LineRegion::sources),
                              MembersOf(wants_, wants, &LineRegion::wants)});
    }
    return regions;
  }

 private:
  const LineRegion& At(size_t d) const { return lines_[d][at_[d]]; }

  void Next() {
    for (size_t d = at_.size(); d-- > 0;) {
      if (++at_[d] < lines_[d].size()) return;
      at_[d] = 0;
    }
  }

  void AddBoxes(size_t d, Box box, std::vector<Box>& boxes) const {
    for (; d < lines_.size() && At(d).intervals.size() == 1; ++d) {
      box[static_cast<int>(d)] = At(d).intervals[0];
    }
    if (d == lines_.size()) return boxes.push_back(std::move(box));
    for (const Interval& interval : At(d).intervals) {
      box[static_cast<int>(d)] = interval;
      AddBoxes(d + 1, box, boxes);
    }
  }

  // Members, ascending, of the boxes that cover the region.
  std::span<const int32_t> MembersOf(const DistinctBoxes& distinct, const BoxProduct& product,
                                     std::span<const int32_t> LineRegion::* side) {
    int32_t only = 0;
    bool is_one = true;
    for (size_t d = 0; d < lines_.size(); ++d) {
      const std::span<const int32_t> places = At(d).*side;
      is_one &= places.size() == 1;
      only += places[0];
    }
    if (is_one) return distinct.members[static_cast<size_t>(product.BoxOf(only))];
    places_.clear();
    for (size_t d = 0; d < lines_.size(); ++d) places_.push_back(At(d).*side);
    combinations_.clear();
    AddCombinations(places_, 0, combinations_);
    members_.clear();
    for (int32_t combination : combinations_) {
      const auto& list = distinct.members[static_cast<size_t>(product.BoxOf(combination))];
      members_.insert(members_.end(), list.begin(), list.end());
    }
    std::sort(members_.begin(), members_.end());
    return lists_.Copy<int32_t>(members_);
  }

  const std::vector<std::vector<LineRegion>>& lines_;
  const DistinctBoxes &sources_, &wants_;
  SpanArena& lists_;
  std::vector<size_t> at_;  // by dimension: the region along it
  // Of the region at hand.
  std::vector<std::span<const int32_t>> places_;
  std::vector<int32_t> combinations_, members_;
};

}  // namespace

std::optional<Regions> ProductRegions(const DistinctBoxes& sources, const DistinctBoxes& wants,
                                      SpanArena& lists) {
  const std::optional<BoxProduct> from = BoxProduct::Of(sources.boxes),
                                  to = BoxProduct::Of(wants.boxes);
  if (!from.has_value() || !to.has_value()) return std::nullopt;
  std::vector<std::vector<LineRegion>> lines;
  for (int d = 0; d < sources.boxes[0].rank(); ++d) {
    lines.push_back(LineRegionsOf(*from, *to, static_cast<size_t>(d), lists));
  }
  return RegionWalk(lines, sources, wants, lists).Walk(*from, *to);
}

}  // namespace partita
