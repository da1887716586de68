#include "graph/collective/bandwidth.h"

#include <gtest/gtest.h>

namespace partita {
namespace {

// Of nccl-tests: 8 ranks that take 1 ms for an operation of 128 MB have algbw 128 GB/s; the bus
// carries 2*7/8 of that in an all-reduce and 7/8 of it in the others.
TEST(BandwidthTest, FiguresAreThoseOfNcclTests) {
  constexpr int64_t kElements = 32'000'000, kNanos = 1'000'000;
  const std::vector<int64_t> blocks(8, kElements / 8);
  const auto reduced = BandwidthOf(MakeAllReduce(8, kElements), 4, kNanos);
  EXPECT_EQ(reduced.bytes, 128'000'000);
  EXPECT_DOUBLE_EQ(reduced.algorithm, 128e9);
  EXPECT_DOUBLE_EQ(reduced.bus, 224e9);
  for (const Collective& collective : {MakeAllGather(blocks), MakeReduceScatter(blocks)}) {
    const auto found = BandwidthOf(collective, 4, kNanos);
    EXPECT_DOUBLE_EQ(found.algorithm, 128e9);
    EXPECT_DOUBLE_EQ(found.bus, 112e9);
  }
  const auto all_to_all =
      BandwidthOf(MakeAllToAll(std::vector(8, std::vector<int64_t>(8, 4'000'000))), 4, kNanos);
  EXPECT_EQ(all_to_all.bytes, 128'000'000);
  EXPECT_DOUBLE_EQ(all_to_all.bus, 112e9);
}

TEST(BandwidthTest, OneRankHasNoBus) {
  const auto found = BandwidthOf(MakeAllReduce(1, 100), 4, 1000);
  EXPECT_DOUBLE_EQ(found.algorithm, 400e6);
  EXPECT_DOUBLE_EQ(found.bus, 0);
}

}  // namespace
}  // namespace partita
