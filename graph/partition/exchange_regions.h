#pragma once

#include <cstdint>
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

template <class Item>
DistinctBoxes Distinct(std::span<const Item> items) {
  DistinctBoxes distinct;
  absl::flat_hash_map<Box, int32_t> index;
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].box.empty()) continue;
    const auto [it, added] =
        index.try_emplace(items[i].box, static_cast<int32_t>(distinct.boxes.size()));
    if (added) {
      distinct.boxes.push_back(items[i].box);
      distinct.members.emplace_back();
    }
    distinct.members[static_cast<size_t>(it->second)].push_back(static_cast<int32_t>(i));
  }
  return distinct;
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
