// What the cuda backend makes of moves, carried out on the host: every element of a box by the
// function that its kernels call, copies by the rows that it gives to the driver.
#include "runtime/backend/cuda/box_moves.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "runtime/backend/cuda/elements/read_first.h"
#include "runtime/backend/host/host_device.h"

namespace partita {
namespace {

using Kind = MoveSignature::Kind;

int64_t Draw(std::mt19937_64& random, int64_t lo, int64_t hi) {
  return std::uniform_int_distribution<int64_t>(lo, hi)(random);
}

// A window around `region`, which it exceeds by up to two on each side, or not at all.
Box Around(const Box& region, std::mt19937_64& random) {
  Box box = region;
  for (int d = 0; d < box.rank(); ++d) {
    if (Draw(random, 0, 1) == 0) continue;
    box[d].lo -= Draw(random, 0, std::min<int64_t>(2, box[d].lo));
    box[d].hi += Draw(random, 0, 2);
  }
  return box;
}

struct RandomMove {
  explicit RandomMove(std::mt19937_64& random) {
    Box region(static_cast<int>(Draw(random, 0, 5)));
    for (int d = 0; d < region.rank(); ++d) {
      region[d].lo = Draw(random, 0, 3);
      region[d].hi = region[d].lo + Draw(random, Draw(random, 0, 9) == 0 ? 0 : 1, 4);
    }
    move.region = region;
    move.from_box = Around(region, random);
    move.to_box = Around(region, random);
    move.dtype = DType::kInt32;
    for (auto [box, values] : {std::pair(&move.from_box, &from), std::pair(&move.to_box, &to)}) {
      values->resize(static_cast<size_t>(box->volume()));
      for (int32_t& value : *values) value = static_cast<int32_t>(Draw(random, -50, 50));
    }
  }

  std::vector<int32_t> Expected(Kind kind) {
    std::vector<int32_t> result = to;
    move.kind = kind;
    move.from = from.data();
    move.to = result.data();
    EXPECT_TRUE(RunDenseMove(move).ok());
    return result;
  }

  Stream::MoveArguments move;
  std::vector<int32_t> from, to;
};

TEST(BoxMovesTest, ElementsOfABoxAreThoseOfAHostMove) {
  std::mt19937_64 random(1);
  constexpr std::pair<Kind, MoveOp> kOps[] = {{Kind::kFill, MoveOp::kZero},
                                              {Kind::kCopy, MoveOp::kCopy},
                                              {Kind::kAdd, MoveOp::kAdd},
                                              {Kind::kMax, MoveOp::kMax}};
  for (int k = 0; k < 2000; ++k) {
    RandomMove random_move(random);
    for (const auto& [kind, op] : kOps) {
      const std::vector<int32_t> want = random_move.Expected(kind);
      std::vector<int32_t> got = random_move.to;
      const StridedBox box = StridedBoxOf(random_move.move);
      EXPECT_EQ(box.elements, random_move.move.region.volume());
      WithIndex(k % 2 == 0 ? box.elements : kMostSmallCount + 1, [&](auto i) {
        for (; i < box.elements; ++i) {
          MoveElement(op, box, random_move.from.data(), got.data(), i);
        }
      });
      ASSERT_EQ(got, want) << k << " from " << ToString(random_move.move.from_box) << " to "
                           << ToString(random_move.move.to_box) << " region "
                           << ToString(random_move.move.region);
    }
  }
}

TEST(BoxMovesTest, RowsOfABoxAreThoseOfAHostMove) {
  std::mt19937_64 random(2);
  for (int k = 0; k < 2000; ++k) {
    RandomMove random_move(random);
    const std::vector<int32_t> want = random_move.Expected(Kind::kCopy);
    std::vector<int32_t> got = random_move.to;
    for (const RowsCopy& copy : RowsCopiesOf(StridedBoxOf(random_move.move))) {
      EXPECT_GE(copy.from_pitch, copy.width);  // what cudaMemcpy2D asks for
      EXPECT_GE(copy.to_pitch, copy.width);
      for (int64_t row = 0; row < copy.height; ++row) {
        std::memcpy(got.data() + copy.to_offset + row * copy.to_pitch,
                    random_move.from.data() + copy.from_offset + row * copy.from_pitch,
                    static_cast<size_t>(copy.width) * sizeof(int32_t));
      }
    }
    ASSERT_EQ(got, want) << k;
  }
}

TEST(BoxMovesTest, WhatLiesBehindEachOtherIsOneRun) {
  Stream::MoveArguments move{Kind::kCopy, DType::kFloat32, nullptr, nullptr, {}, {}, {}};
  move.region = Box{{2, 4}, {0, 5}, {0, 7}};
  move.from_box = Box{{0, 9}, {0, 5}, {0, 7}};
  move.to_box = Box{{1, 4}, {0, 5}, {0, 7}};
  const StridedBox run = StridedBoxOf(move);
  EXPECT_TRUE(run.contiguous());
  EXPECT_EQ(run.elements, 2 * 5 * 7);
  EXPECT_EQ(run.from_offset, 2 * 5 * 7);
  EXPECT_EQ(run.to_offset, 5 * 7);
  EXPECT_EQ(RowsCopiesOf(run).size(), 1u);

  move.to_box = Box{{2, 4}, {0, 5}, {0, 8}};  // a gap behind each row
  const StridedBox rows = StridedBoxOf(move);
  EXPECT_EQ(rows.rank, 2);
  EXPECT_FALSE(rows.contiguous());
  const std::vector<RowsCopy> copies = RowsCopiesOf(rows);
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].height, 10);
  EXPECT_EQ(copies[0].to_pitch, 8);
}

TEST(BoxMovesTest, RowsFartherApartThanACopyTakesAreCopiedOneByOne) {
  constexpr int64_t kWide = RowsCopy::kMostPitch + 1;
  Stream::MoveArguments move{Kind::kCopy, DType::kFloat32, nullptr, nullptr, {}, {}, {}};
  move.region = move.to_box = Box{{0, 3}, {0, 5}};
  move.from_box = Box{{0, 3}, {0, kWide}};
  const std::vector<RowsCopy> copies = RowsCopiesOf(StridedBoxOf(move));
  ASSERT_EQ(copies.size(), 3u);
  for (int64_t row = 0; row < 3; ++row) {
    const RowsCopy& copy = copies[static_cast<size_t>(row)];
    EXPECT_EQ(copy.height, 1);
    EXPECT_EQ(copy.width, 5);
    EXPECT_EQ(copy.from_offset, row * kWide);
    EXPECT_EQ(copy.to_offset, row * 5);
  }
}

}  // namespace
}  // namespace partita
