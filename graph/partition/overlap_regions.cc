#include "graph/partition/overlap_regions.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace partita {
namespace {

// Elements that a source may send, in multiples of the largest box of either side; and that all may
// send, in multiples of what they have: where blocks have halos as large as themselves on every side,
// along two dimensions, each element is wanted nine times.
struct Limits {
  int64_t sent = 2;
  int64_t sent_in_all = 8;
};
// The same of what a want gets, and all do: terms of each element.
constexpr Limits kMostTerms = {8, 8};

class OverlapWalk {
 public:
  OverlapWalk(const DistinctBoxes& sources, const BoxProduct& grid, const DistinctBoxes& wants)
      : sources_(sources), grid_(grid), wants_(wants), spans_(wants.boxes.size() * grid.rank()) {}

  std::optional<Regions> Walk(const Limits& limits) {
    size_t pairs = 0;
    int64_t in_all = 0, held = 0, most = 0;
    for (size_t w = 0; w < wants_.boxes.size(); ++w) {
      const Overlap overlap = FindSpans(w);
      pairs += overlap.pairs;
      in_all += overlap.volume;
      most = std::max(most, wants_.boxes[w].volume());
    }
    for (const Box& box : sources_.boxes) {
      held += box.volume();
      most = std::max(most, box.volume());
    }
    if (in_all > limits.sent_in_all * held) return std::nullopt;
    sent_.assign(sources_.boxes.size(), 0);
    std::vector<Box>& boxes = regions_.boxes.emplace_back();
    boxes.reserve(pairs);
    regions_.list.reserve(pairs);
    for (size_t w = 0; w < wants_.boxes.size(); ++w) AddPairs(w, boxes);
    if (std::ranges::any_of(sent_, [&](int64_t sent) { return sent > limits.sent * most; })) {
      return std::nullopt;
    }
    return std::move(regions_);
  }

 private:
  // Places in an axis.
  struct Span {
    int32_t begin = 0, end = 0;
  };

  // What the sources have of a want.
  struct Overlap {
    size_t pairs = 1;
    int64_t volume = 1;
  };

  Span* SpansOf(size_t want) { return spans_.data() + want * grid_.rank(); }

  // Finds the sources that overlap a want, dimension by dimension.
  Overlap FindSpans(size_t want) {
    Overlap overlap;
    for (size_t d = 0; d < grid_.rank(); ++d) {
      const BoxAxis& axis = grid_.axis(d);
      const Interval wanted = wants_.boxes[want][static_cast<int>(d)];
      const auto first = std::partition_point(
          axis.begin(), axis.end(), [&](const Interval& held) { return held.hi <= wanted.lo; });
      const auto last = std::partition_point(
          first, axis.end(), [&](const Interval& held) { return held.lo < wanted.hi; });
      SpansOf(want)[d] = {static_cast<int32_t>(first - axis.begin()),
                          static_cast<int32_t>(last - axis.begin())};
      overlap.pairs *= static_cast<size_t>(last - first);
      int64_t length = 0;
      for (auto held = first; held != last; ++held) length += Intersect(*held, wanted).size();
      overlap.volume *= length;
    }
    return overlap;
  }

  // Adds the pairs of a want, with the sources in row-major order.
  void AddPairs(size_t want, std::vector<Box>& boxes) {
    const Span* spans = SpansOf(want);
    common_ = wants_.boxes[want];
    lines_.clear();
    commons_.clear();
    Chosen first{want, 0, 1};
    for (size_t d = 0; d < grid_.rank(); ++d) {
      const auto [begin, end] = spans[d];
      if (begin == end) return;
      first.combination += begin * grid_.stride(d);
      const Interval wanted = common_[static_cast<int>(d)];
      const auto held = std::span(grid_.axis(d)).subspan(static_cast<size_t>(begin));
      if (end - begin == 1) {
        common_[static_cast<int>(d)] = Intersect(held[0], wanted);
        first.volume *= common_[static_cast<int>(d)].size();
        continue;
      }
      lines_.push_back({static_cast<int>(d), grid_.stride(d), commons_.size(), 0});
      for (int32_t k = 0; k < end - begin; ++k) {
        commons_.push_back(Intersect(held[static_cast<size_t>(k)], wanted));
      }
      lines_.back().end = commons_.size();
    }
    AddPairsFrom(0, first, boxes);
  }

  // A want, and the sources that are left with intervals chosen along some dimensions: the combination of
  // the first of them.
  struct Chosen {
    size_t want;
    int32_t combination;
    int64_t volume;  // of the common box, along those dimensions
  };
  // A dimension along which several sources overlap the want at hand, with what it has in common with
  // each: commons_[begin, end).
  struct Line {
    int dim;
    int32_t stride;
    size_t begin, end;
  };

  // Adds the pairs for all intervals along the lines from l on; common_ is cut to what is chosen along all
  // other dimensions.
  void AddPairsFrom(size_t l, Chosen chosen, std::vector<Box>& boxes) {
    if (l == lines_.size()) return AddPair(chosen, boxes);
    const Line line = lines_[l];
    Interval& common = common_[line.dim];
    const int64_t others = chosen.volume;
    for (size_t k = line.begin; k < line.end; ++k) {
      common = commons_[k];
      chosen.volume = others * common.size();
      AddPairsFrom(l + 1, chosen, boxes);
      chosen.combination += line.stride;
    }
  }

  void AddPair(const Chosen& chosen, std::vector<Box>& boxes) {
    const auto source = static_cast<size_t>(grid_.BoxOf(chosen.combination));
    boxes.push_back(common_);
    sent_[source] += chosen.volume;
    regions_.list.push_back(
        {{&boxes.back(), 1}, sources_.members[source], wants_.members[chosen.want]});
  }

  const DistinctBoxes& sources_;
  const BoxProduct& grid_;
  const DistinctBoxes& wants_;
  std::vector<Span> spans_;    // by want and dimension
  std::vector<int64_t> sent_;  // indexed by source: elements
  // Of the want at hand.
  Box common_;  // cut to the intervals that are chosen
  std::vector<Line> lines_;
  std::vector<Interval> commons_;
  Regions regions_;
};

}  // namespace

std::optional<Regions> OverlapRegions(const DistinctBoxes& sources, const BoxProduct& grid,
                                      const DistinctBoxes& wants) {
  return OverlapWalk(sources, grid, wants).Walk({});
}

// Sources and wants change places.
std::optional<Regions> OverlapsOfTerms(const DistinctBoxes& sources, const DistinctBoxes& wants,
                                       const BoxProduct& grid) {
  auto overlaps = OverlapWalk(wants, grid, sources).Walk(kMostTerms);
  if (!overlaps.has_value()) return std::nullopt;
  for (Region& region : overlaps->list) std::swap(region.pieces, region.demands);
  return overlaps;
}

}  // namespace partita
