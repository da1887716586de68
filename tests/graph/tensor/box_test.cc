#include "graph/box.h"

#include <gtest/gtest.h>

#include <random>

namespace partita {
namespace {

TEST(BoxTest, AScalarsBoxHoldsOneElement) {
  EXPECT_FALSE(Box(0).empty());
  EXPECT_EQ(Box(0).volume(), 1);
  EXPECT_EQ(Box::Full({}), Box(0));
  EXPECT_TRUE(Box(0).Contains(Box(0)));
  EXPECT_TRUE(Intersect(Box(0), Box(0)).has_value());
  EXPECT_TRUE(Subtract(Box(0), Box(0)).empty());
  EXPECT_TRUE(PlacementIn(Box(0), Box(0)).contiguous);
}

TEST(BoxTest, ABoxWithAnEmptyIntervalHoldsNothing) {
  const Box empty{{0, 3}, {2, 2}};
  EXPECT_TRUE(empty.empty());
  EXPECT_EQ(empty.volume(), 0);
  EXPECT_FALSE(Intersect(empty, Box{{0, 3}, {0, 4}}).has_value());
  EXPECT_TRUE(Uncovered(empty, {}).empty());
}

TEST(BoxTest, BoxesThatOnlyTouchHaveNothingInCommon) {
  EXPECT_FALSE(Intersect(Box{{0, 2}}, Box{{2, 4}}).has_value());
  EXPECT_EQ(*Intersect(Box{{0, 3}}, Box{{2, 4}}), (Box{{2, 3}}));
}

TEST(BoxTest, SubtractGivesDisjointBoxesAroundTheHole) {
  const std::vector<Box> rest = Subtract({{0, 4}, {0, 4}}, {{1, 2}, {1, 3}});
  EXPECT_EQ(rest, (std::vector<Box>{
                      {{0, 1}, {0, 4}}, {{2, 4}, {0, 4}}, {{1, 2}, {0, 1}}, {{1, 2}, {3, 4}}}));
}

TEST(BoxTest, UncoveredIsTheComplementOfAnyCovers) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 300; ++round) {
    auto random_box = [&] {
      Box box(3);
      for (int d = 0; d < 3; ++d) {
        const int64_t lo = static_cast<int64_t>(random() % 5);
        box[d] = {lo, lo + 1 + static_cast<int64_t>(random() % 4)};
      }
      return box;
    };
    const Box whole = random_box();
    std::vector<Box> covers;
    for (size_t i = random() % 5; i > 0; --i) covers.push_back(random_box());
    const std::vector<Box> rest = Uncovered(whole, covers);
    for (int64_t e = 0; e < 9 * 9 * 9; ++e) {
      const Box point{{e / 81, e / 81 + 1}, {e / 9 % 9, e / 9 % 9 + 1}, {e % 9, e % 9 + 1}};
      bool covered = false;
      for (const Box& cover : covers) covered |= cover.Contains(point);
      int found = 0;
      for (const Box& box : rest) found += box.Contains(point);
      EXPECT_EQ(found, whole.Contains(point) && !covered ? 1 : 0);
    }
  }
}

TEST(BoxTest, RowsOfAMatrixAreContiguousAndColumnsAreNot) {
  const Box matrix{{2, 6}, {0, 5}};
  EXPECT_EQ(PlacementIn({{3, 5}, {0, 5}}, matrix).offset, 5);
  EXPECT_TRUE(PlacementIn({{3, 5}, {0, 5}}, matrix).contiguous);
  EXPECT_FALSE(PlacementIn({{2, 6}, {0, 4}}, matrix).contiguous);
  EXPECT_EQ(PlacementIn({{4, 5}, {1, 3}}, matrix).offset, 11);
  EXPECT_TRUE(PlacementIn({{4, 5}, {1, 3}}, matrix).contiguous);
}

TEST(BoxTest, PlacementAgreesWithCountingElements) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 500; ++round) {
    Box outer(3), inner(3);
    for (int d = 0; d < 3; ++d) {
      const int64_t n = 1 + static_cast<int64_t>(random() % 3), at = random() % 4;
      outer[d] = {at, at + n};
      const int64_t lo = static_cast<int64_t>(random() % n);
      inner[d] = {at + lo, at + lo + 1 + static_cast<int64_t>(random() % (n - lo))};
    }
    std::vector<int64_t> offsets;
    int64_t offset = 0;
    for (int64_t i = outer[0].lo; i < outer[0].hi; ++i) {
      for (int64_t j = outer[1].lo; j < outer[1].hi; ++j) {
        for (int64_t k = outer[2].lo; k < outer[2].hi; ++k, ++offset) {
          if (inner.Contains(Box{{i, i + 1}, {j, j + 1}, {k, k + 1}})) offsets.push_back(offset);
        }
      }
    }
    const Placement place = PlacementIn(inner, outer);
    EXPECT_EQ(place.offset, offsets.front());
    EXPECT_EQ(place.contiguous,
              offsets.back() - offsets.front() + 1 == static_cast<int64_t>(offsets.size()))
        << ToString(inner) << " in " << ToString(outer);
  }
}

TEST(BoxTest, BlocksDifferInSizeByAtMostOneAndTile) {
  for (int64_t n = 1; n < 20; ++n) {
    for (int64_t parts = 1; parts <= n; ++parts) {
      int64_t at = 0;
      for (int64_t k = 0; k < parts; ++k) {
        const Interval block = BlockOf(n, parts, k);
        EXPECT_EQ(block.lo, at);
        EXPECT_GE(block.size(), n / parts);
        EXPECT_LE(block.size(), (n + parts - 1) / parts);
        at = block.hi;
      }
      EXPECT_EQ(at, n);
    }
  }
}

}  // namespace
}  // namespace partita
