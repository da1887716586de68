#include "tests/graph/partition/grid_regions.h"

#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "graph/partition/coalesce.h"

namespace partita {
namespace {

// Cells of the grid that the ends of all boxes make, in row-major order.
std::vector<Box> CellsOf(const DistinctBoxes& a, const DistinctBoxes& b) {
  std::vector<Box> cells = {Box(a.boxes[0].rank())};
  for (int d = 0; d < a.boxes[0].rank(); ++d) {
    std::set<int64_t> cuts;
    for (const DistinctBoxes* side : {&a, &b}) {
      for (const Box& box : side->boxes) cuts.insert({box[d].lo, box[d].hi});
    }
    std::vector<Box> next;
    for (Box& cell : cells) {
      for (auto cut = cuts.begin(); std::next(cut) != cuts.end(); ++cut) {
        cell[d] = {*cut, *std::next(cut)};
        next.push_back(cell);
      }
    }
    cells = std::move(next);
  }
  return cells;
}

// Members, ascending, of the boxes that hold the cell.
std::vector<int32_t> MembersAt(const Box& cell, const DistinctBoxes& distinct) {
  std::set<int32_t> members;
  for (size_t b = 0; b < distinct.boxes.size(); ++b) {
    if (!distinct.boxes[b].Contains(cell)) continue;
    members.insert(distinct.members[b].begin(), distinct.members[b].end());
  }
  return {members.begin(), members.end()};
}

}  // namespace

Regions GridRegions(const DistinctBoxes& sources, const DistinctBoxes& wants, SpanArena& lists) {
  std::map<std::pair<std::vector<int32_t>, std::vector<int32_t>>, size_t> index;
  Regions regions;
  std::vector<Boxes> boxes;  // of each region
  for (const Box& cell : CellsOf(sources, wants)) {
    const auto pieces = MembersAt(cell, sources), demands = MembersAt(cell, wants);
    if (pieces.empty() || demands.empty()) continue;
    const auto [it, added] = index.try_emplace({pieces, demands}, boxes.size());
    if (added) {
      regions.list.push_back({{}, lists.Copy<int32_t>(pieces), lists.Copy<int32_t>(demands)});
      boxes.emplace_back();
    }
    boxes[it->second].push_back(cell);
  }
  for (size_t r = 0; r < boxes.size(); ++r) {
    const Boxes joined = Coalesce(std::move(boxes[r]));
    regions.list[r].boxes = regions.boxes.emplace_back(joined.begin(), joined.end());
  }
  return regions;
}

}  // namespace partita
