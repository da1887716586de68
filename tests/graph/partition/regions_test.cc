#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/partition/exchange.h"
#include "graph/partition/exchange_regions.h"
#include "graph/partition/overlap_regions.h"
#include "graph/partition/product_regions.h"
#include "graph/partition/swept_regions.h"
#include "tests/graph/partition/grid_regions.h"
#include "tests/testing/cases.h"

namespace partita {
namespace {

// Boxes as a tensor's users hold or want them: blocks of a grid for each user, perhaps with halos,
// perhaps of a part of the tensor, some missing; and boxes anywhere.
class RandomBoxes {
 public:
  explicit RandomBoxes(uint64_t seed) : random_(seed) {
    const int rank = Chance(3) ? 0 : 1 + Below(4);
    for (int d = 0; d < rank; ++d) shape_.push_back(1 + Below(rank > 2 ? 7 : 24));
  }

  // One item for each box and holder.
  std::vector<Demand> Side() {
    std::vector<Demand> items;
    const int users = 1 + Below(3);
    for (int user = 0; user < users; ++user) {
      const int missing = Chance(70) ? 0 : Below(60);  // percent
      const int copies = Chance(70) ? 1 : 2;
      std::vector<Box> boxes = Chance(80) ? Blocks(Chance(70) ? Box::Full(shape_) : Any())
                                          : std::vector<Box>{Any(), Any(), Any()};
      if (Chance(20)) std::shuffle(boxes.begin(), boxes.end(), random_);
      for (int copy = 0; copy < copies; ++copy) {
        for (const Box& box : boxes) {
          if (!Chance(missing)) items.push_back({box, DeviceId(Below(8))});
        }
      }
    }
    items.push_back({Any(), DeviceId(0)});
    if (Chance(70)) items.pop_back();
    return items;
  }

 private:
  int Below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  bool Chance(int percent) { return Below(100) < percent; }

  Box Any() {
    Box box(static_cast<int>(shape_.size()));
    for (int d = 0; d < box.rank(); ++d) {
      const auto n = static_cast<int>(shape_[static_cast<size_t>(d)]);
      const int lo = Below(n);
      box[d] = {lo, lo + 1 + Below(n - lo)};
    }
    return box;
  }

  std::vector<Box> Blocks(const Box& part) {
    std::vector<Box> boxes = {part};
    const int64_t halo = Chance(40) ? 1 + Below(2) : 0;
    for (int d = 0; d < part.rank(); ++d) {
      const auto n = static_cast<int>(part[d].size());
      const int degree = Chance(40) ? 1 : 1 + Below(std::min(n, 5));
      std::vector<Box> next;
      for (const Box& box : boxes) {
        for (int k = 0; k < degree; ++k) {
          const Interval block = BlockOf(n, degree, k);
          next.push_back(box);
          next.back()[d] = {std::max<int64_t>(part[d].lo, part[d].lo + block.lo - halo),
                            std::min<int64_t>(part[d].hi, part[d].lo + block.hi + halo)};
        }
      }
      boxes = std::move(next);
    }
    return boxes;
  }

  std::mt19937_64 random_;
  Shape shape_;
};

std::string ToString(const Region& region) {
  std::string text = "boxes";
  for (const Box& box : region.boxes) absl::StrAppend(&text, " ", ToString(box));
  absl::StrAppend(&text, " pieces");
  for (int32_t piece : region.pieces) absl::StrAppend(&text, " ", piece);
  absl::StrAppend(&text, " demands");
  for (int32_t demand : region.demands) absl::StrAppend(&text, " ", demand);
  return text;
}

std::vector<std::string> TextsOf(const Regions& regions) {
  std::vector<std::string> texts;
  for (const Region& region : regions.list) texts.push_back(ToString(region));
  return texts;
}

TEST(RegionsTest, AreThoseOfTheGridInItsOrder) {
  int several = 0, products = 0, partial = 0;  // cases
  for (uint64_t seed = 0; seed < CasesOf(6000); ++seed) {
    RandomBoxes random(seed);
    const std::vector<Demand> from = random.Side(), to = random.Side();
    if (from.empty() || to.empty()) continue;
    const DistinctBoxes sources = Distinct<Demand>(from), wants = Distinct<Demand>(to);
    SpanArena lists;
    const Regions grid = GridRegions(sources, wants, lists);
    const std::vector<std::string> wanted = TextsOf(grid);
    ASSERT_EQ(TextsOf(SweptRegions(sources, wants, lists)), wanted) << "seed " << seed;
    ASSERT_EQ(TextsOf(FindRegions(sources, wants, lists)), wanted) << "seed " << seed;
    products += ProductRegions(sources, wants, lists).has_value() ? 1 : 0;
    several += std::ranges::any_of(grid.list, [](const Region& r) { return r.boxes.size() > 1; });
    partial += grid.list.empty() ? 1 : 0;
  }
  EXPECT_GE(several, CasesOf(6000) / 20) << "cases in which some region has several boxes";
  EXPECT_GE(products, CasesOf(6000) / 20) << "cases in which both sides are products";
  EXPECT_GE(partial, 1) << "cases in which no source is wanted";
}

// Each element of a wanted box that some source holds is in one pair, of that source.
TEST(OverlapRegionsTest, AreWhatEachSourceHasOfEachWant) {
  int shared = 0;  // cases in which wants have elements in common
  for (uint64_t seed = 0; seed < CasesOf(6000); ++seed) {
    RandomBoxes random(seed);
    const std::vector<Demand> from = random.Side(), to = random.Side();
    if (from.empty() || to.empty()) continue;
    const DistinctBoxes sources = Distinct<Demand>(from), wants = Distinct<Demand>(to);
    const auto grid = BoxProduct::OfDisjoint(sources.boxes);
    if (!grid.has_value()) continue;
    const auto overlaps = OverlapRegions(sources, *grid, wants);
    SpanArena lists;
    if (!overlaps.has_value()) continue;
    size_t pairs = 0;
    for (size_t w = 0; w < wants.boxes.size(); ++w) {
      for (size_t s = 0; s < sources.boxes.size(); ++s) {
        const auto common = Intersect(sources.boxes[s], wants.boxes[w]);
        if (!common.has_value()) continue;
        ASSERT_LT(pairs, overlaps->list.size()) << "seed " << seed;
        ++pairs;
        const auto is_pair = [&](const Region& region) {
          return region.boxes.size() == 1 && region.boxes[0] == *common &&
                 std::ranges::equal(region.pieces, sources.members[s]) &&
                 std::ranges::equal(region.demands, wants.members[w]);
        };
        ASSERT_EQ(std::ranges::count_if(overlaps->list, is_pair), 1) << "seed " << seed;
      }
    }
    ASSERT_EQ(overlaps->list.size(), pairs) << "seed " << seed;
    shared += std::ranges::any_of(GridRegions(sources, wants, lists).list,
                                  [](const Region& r) { return r.demands.size() > 1; });
  }
  EXPECT_GE(shared, CasesOf(6000) / 100);
}

TEST(OverlapRegionsTest, AreNoneWhereOneSourceWouldSendFarMoreThanAnyBoxHas) {
  const std::vector<Demand> from = {{Box{{0, 100}}, DeviceId(0)}};
  std::vector<Demand> to;
  for (int64_t k = 0; k < 3; ++k) {
    to.push_back({Box{{k, 98 + k}}, DeviceId(static_cast<int>(k + 1))});
    const DistinctBoxes sources = Distinct<Demand>(from), wants = Distinct<Demand>(to);
    const auto grid = BoxProduct::Of(sources.boxes);
    ASSERT_TRUE(grid.has_value());
    EXPECT_EQ(OverlapRegions(sources, *grid, wants).has_value(), k < 2) << k;
  }
}

TEST(OverlapRegionsTest, AreNoneWhereAllSourcesWouldSendFarMoreThanTheyHold) {
  std::vector<Demand> from, to;
  for (int d = 0; d < 64; ++d) from.push_back({Box{{d, d + 1}}, DeviceId(d)});
  for (int d = 0; d < 16; ++d) {
    to.push_back({Box{{d, 48 + d}}, DeviceId(d)});
    const DistinctBoxes sources = Distinct<Demand>(from), wants = Distinct<Demand>(to);
    const auto grid = BoxProduct::Of(sources.boxes);
    ASSERT_TRUE(grid.has_value());
    EXPECT_EQ(OverlapRegions(sources, *grid, wants).has_value(), 48 * (d + 1) <= 8 * 64) << d;
  }
}

// Pieces on the diagonal, rows wanted one by one and eight by eight: of the 4,096^2 cells that the
// ends of all boxes make, 4,096 are held.
TEST(RegionsTest, OfManyBoxesThatShareFewElementsAreFew) {
  constexpr int64_t kParts = 4096;
  std::vector<Demand> from, to;
  for (int64_t k = 0; k < kParts; ++k) {
    const DeviceId device(static_cast<int>(k));
    from.push_back({Box{{k, k + 1}, {k, k + 1}}, device});
    to.push_back({Box{{k, k + 1}, {0, kParts}}, device});
    to.push_back({Box{{k / 8 * 8, k / 8 * 8 + 8}, {0, kParts}}, device});
  }
  const DistinctBoxes sources = Distinct<Demand>(from), wants = Distinct<Demand>(to);
  SpanArena lists;
  const Regions regions = FindRegions(sources, wants, lists);
  ASSERT_EQ(regions.list.size(), static_cast<size_t>(kParts));
  for (size_t k = 0; k < regions.list.size(); ++k) {
    const Region& region = regions.list[k];
    ASSERT_EQ(region.boxes.size(), 1u);
    EXPECT_EQ(region.boxes[0], from[k].box);
    EXPECT_EQ(region.pieces.size(), 1u);
    EXPECT_EQ(region.demands.size(), 9u);
  }
}

}  // namespace
}  // namespace partita
