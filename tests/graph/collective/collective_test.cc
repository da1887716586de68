#include "graph/collective/collective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "graph/collective/schedule.h"

namespace partita {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(CollectiveTest, EvenBlocksDifferByAtMostOneAndDoNotOverflow) {
  EXPECT_THAT(EvenBlocks(10, 4), ElementsAre(ElementRange{0, 2}, ElementRange{2, 3},
                                             ElementRange{5, 2}, ElementRange{7, 3}));
  EXPECT_THAT(EvenBlocks(1, 3),
              ElementsAre(ElementRange{0, 0}, ElementRange{0, 0}, ElementRange{0, 1}));
  const int64_t huge = std::numeric_limits<int64_t>::max();
  const std::vector<ElementRange> blocks = EvenBlocks(huge, 1000);
  EXPECT_EQ(blocks.back().end(), huge);
  for (const ElementRange& block : blocks) EXPECT_LE(block.count - huge / 1000, 1);
}

TEST(CollectiveTest, BroadcastAndReduceAreOneNonEmptyBlock) {
  const Collective broadcast = MakeBroadcast(4, 2, 7);
  EXPECT_EQ(broadcast.kind, CollectiveKind::kAllGather);
  EXPECT_THAT(broadcast.blocks, ElementsAre(ElementRange{0, 0}, ElementRange{0, 0},
                                            ElementRange{0, 7}, ElementRange{7, 0}));
  EXPECT_EQ(RootOf(broadcast), 2);
  EXPECT_EQ(RootOf(MakeReduce(4, 0, 7)), 0);
  EXPECT_EQ(RootOf(MakeAllGather({3, 0, 4})), std::nullopt);
  EXPECT_EQ(RootOf(MakeAllReduce(4, 7)), std::nullopt);
}

TEST(CollectiveTest, AllToAllBuffersHaveNoGaps) {
  const Collective c = MakeAllToAll({{1, 2}, {3, 0}});
  EXPECT_EQ(SendElements(c, 0), 3);
  EXPECT_EQ(SendElements(c, 1), 3);
  EXPECT_EQ(ReceiveElements(c, 0), 4);
  EXPECT_EQ(ReceiveElements(c, 1), 2);
  EXPECT_EQ(SendOffset(c, 0, 1), 1);
  EXPECT_EQ(ReceiveOffset(c, 1, 0), 1);
}

TEST(CollectiveTest, BusBandwidthFactorsAreThoseOfNcclTests) {
  EXPECT_DOUBLE_EQ(BusBandwidthFactor(MakeAllReduce(4, 8)), 1.5);
  EXPECT_DOUBLE_EQ(BusBandwidthFactor(MakeReduceScatter({2, 2, 2, 2})), 0.75);
  EXPECT_DOUBLE_EQ(BusBandwidthFactor(MakeAllGather({2, 2, 2, 2})), 0.75);
  EXPECT_DOUBLE_EQ(BusBandwidthFactor(MakeAllToAll({{1, 1}, {1, 1}})), 0.5);
  EXPECT_DOUBLE_EQ(BusBandwidthFactor(MakeBroadcast(4, 1, 8)), 1);
  EXPECT_DOUBLE_EQ(BusBandwidthFactor(MakeReduce(4, 1, 8)), 1);
}

TEST(CollectiveTest, ValidateNamesWhatIsWrong) {
  EXPECT_TRUE(Validate(MakeReduceScatter({3, 0, 5})).ok());
  const auto message = [](const Collective& c) { return std::string(Validate(c).message()); };
  EXPECT_THAT(message(MakeAllReduce(0, 4)), HasSubstr("0 ranks"));
  EXPECT_THAT(message(MakeAllReduce(2, -4)), HasSubstr("-4 elements"));
  Collective gap = MakeAllGather({3, 4});
  gap.blocks[1].offset = 2;
  EXPECT_THAT(message(gap), HasSubstr("block of rank 1 is 4 elements from 2"));
  Collective shorter = MakeAllGather({3, 4});
  shorter.total = 9;
  EXPECT_THAT(message(shorter), HasSubstr("7 elements together, wanted 9"));
  Collective fewer = MakeAllGather({3, 4});
  fewer.ranks = 3;
  EXPECT_THAT(message(fewer), HasSubstr("one block per rank"));
  EXPECT_THAT(message(MakeAllToAll({{1, 2}, {3}})), HasSubstr("row 1 has 1 counts"));
  EXPECT_THAT(message(MakeAllToAll({{1, -2}, {3, 4}})), HasSubstr("from rank 0 to rank 1 is -2"));
  const int64_t huge = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(message(MakeAllToAll({{huge, huge}, {0, 0}})), HasSubstr("64-bit"));
}

TEST(ScheduleTest, UnionOfMergesOverlapsAndNeighbours) {
  EXPECT_THAT(UnionOf({{6, 2}, {0, 2}, {1, 3}, {4, 0}, {8, 1}}),
              ElementsAre(ElementRange{0, 4}, ElementRange{6, 3}));
}

TEST(ScheduleTest, RoundsOfRankListsReceivesInFoldOrder) {
  CollectiveSchedule schedule{.ranks = 3, .rounds = {}};
  schedule.rounds.push_back({.steps = {{2, 1, 0, 0, 4, StepAction::kReduce},
                                       {0, 1, 0, 0, 4, StepAction::kReduce},
                                       {1, 2, 4, 4, 2, StepAction::kCopy}},
                             .sends_snapshot = false});
  const std::vector<RankRound> rounds = RoundsOfRank(schedule, 1);
  ASSERT_EQ(rounds.size(), 1u);
  ASSERT_EQ(rounds[0].receives.size(), 2u);
  EXPECT_EQ(rounds[0].receives[0].from, 0);
  EXPECT_EQ(rounds[0].receives[1].from, 2);
  ASSERT_EQ(rounds[0].sends.size(), 1u);
  EXPECT_EQ(ElementsReceived(schedule), (std::vector<int64_t>{0, 8, 2}));
  EXPECT_EQ(ScratchElements(schedule, 1), 8);
  EXPECT_EQ(ScratchElements(schedule, 2), 0);
  schedule.rounds[0].sends_snapshot = true;
  EXPECT_EQ(ScratchElements(schedule, 1), 10);
  EXPECT_EQ(ToString(schedule),
            "round 0: 2 -> 1 reduce [0, 4)\nround 0: 0 -> 1 reduce [0, 4)\n"
            "round 0: 1 -> 2 copy [4, 6)\n");
}

}  // namespace
}  // namespace partita
