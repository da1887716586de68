#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "graph/box.h"
#include "graph/support/span_arena.h"

namespace partita {

// Equal boxes once, with what holds or wants each.
struct DistinctBoxes {
  std::vector<Box> boxes;
  std::vector<absl::InlinedVector<int32_t, 2>> members;  // piece or demand numbers, ascending
};

// Of the items with these numbers, ascending; empty boxes are left out.
template <class Item>
DistinctBoxes Distinct(std::span<const Item> items, std::span<const int32_t> numbers) {
  DistinctBoxes distinct;
  absl::flat_hash_map<Box, int32_t> index;
  for (int32_t i : numbers) {
    const Box& box = items[static_cast<size_t>(i)].box;
    if (box.empty()) continue;
    const auto [it, added] = index.try_emplace(box, static_cast<int32_t>(distinct.boxes.size()));
    if (added) {
      distinct.boxes.push_back(box);
      distinct.members.emplace_back();
    }
    distinct.members[static_cast<size_t>(it->second)].push_back(i);
  }
  return distinct;
}
template <class Item>
DistinctBoxes Distinct(std::span<const Item> items) {
  std::vector<int32_t> all(items.size());
  std::iota(all.begin(), all.end(), 0);
  return Distinct(items, std::span<const int32_t>(all));
}

// The elements that the same pieces cover and the same demands want.
struct Region {
  std::span<const Box> boxes;  // disjoint, in row-major order of corners; as few as merging finds
  std::span<const int32_t> pieces;   // sorted
  std::span<const int32_t> demands;  // sorted
};

// Regions and their boxes. Other lists are those of the distinct boxes, or of the arena.
struct Regions {
  std::vector<Region> list;
  std::vector<std::vector<Box>> boxes;  // in chunks, which stay where they are as others are added
};

// The regions that some source covers, in row-major order of their first corners. Neither side is
// empty. Takes time in proportion to the regions, their boxes and their lists: ProductRegions where
// the boxes of both sides are products, SweptRegions for others.
Regions FindRegions(const DistinctBoxes& sources, const DistinctBoxes& wants, SpanArena& lists);

}  // namespace partita
