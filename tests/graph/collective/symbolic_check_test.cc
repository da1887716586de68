#include "graph/collective/symbolic_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/graph/collective/random_collectives.h"

namespace partita {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string Fault(const Collective& c, const CollectiveSchedule& schedule) {
  return std::string(CheckSchedule(c, schedule).message());
}

CollectiveSchedule Ring4() { return *BuildSchedule("ring", MakeAllReduce(4, 8)); }

TEST(SymbolicCheckTest, NamesWhatADroppedStepLeavesOut) {
  CollectiveSchedule schedule = Ring4();
  // Rank 2 does not get block 0 = [0, 2) with the contribution of rank 1.
  CollectiveRound& first = schedule.rounds[0];
  ASSERT_EQ(first.steps[1], (CollectiveStep{1, 2, 0, 0, 2, StepAction::kReduce}));
  first.steps.erase(first.steps.begin() + 1);
  EXPECT_EQ(
      Fault(MakeAllReduce(4, 8), schedule),
      "collective schedule: at the end rank 0, elements [0, 2): the contribution of rank 1 is "
      "missing");
}

TEST(SymbolicCheckTest, NamesWhatADoubledStepCountsTwice) {
  CollectiveSchedule same_round = Ring4();
  same_round.rounds[0].steps.push_back(same_round.rounds[0].steps[1]);
  EXPECT_EQ(Fault(MakeAllReduce(4, 8), same_round),
            "collective schedule: rank 2, elements [0, 2): rank 1 delivers them 2 times (round 0)");
  CollectiveSchedule later = Ring4();
  later.rounds.insert(later.rounds.begin() + 1, {.steps = {later.rounds[0].steps[1]}});
  EXPECT_EQ(
      Fault(MakeAllReduce(4, 8), later),
      "collective schedule: at the end rank 0, elements [0, 2): the contribution of rank 1 is "
      "there 2 times, wanted 1");
  CollectiveSchedule copied = Ring4();
  copied.rounds.push_back({.steps = {copied.rounds.back().steps[0]}});
  EXPECT_THAT(Fault(MakeAllReduce(4, 8), copied),
              HasSubstr("delivers again what is already there"));
}

TEST(SymbolicCheckTest, NamesTheRanksOfASwap) {
  CollectiveSchedule schedule = Ring4();
  std::swap(schedule.rounds[0].steps[1].from, schedule.rounds[0].steps[1].to);
  EXPECT_THAT(Fault(MakeAllReduce(4, 8), schedule),
              AllOf(HasSubstr("rank"), HasSubstr("elements [0, 2)"), HasSubstr("rank 1")));
}

TEST(SymbolicCheckTest, FindsUndefinedValuesInAnAllGather) {
  const Collective c = MakeAllGather({2, 3});
  CollectiveSchedule schedule = *BuildSchedule("direct", c);
  std::swap(schedule.rounds[0].steps[0].from, schedule.rounds[0].steps[0].to);
  EXPECT_THAT(Fault(c, schedule), Not(IsEmpty()));
  CollectiveSchedule nothing{.ranks = 2, .rounds = {}};
  EXPECT_THAT(Fault(c, nothing),
              HasSubstr("rank 0, elements [2, 5): the contribution of rank 1 is missing"));
}

TEST(SymbolicCheckTest, FindsWhatIsDeliveredButNotUsed) {
  const Collective c = MakeReduceScatter({2, 3, 1});
  CollectiveSchedule schedule = *BuildSchedule("direct", c);
  schedule.rounds.push_back({.steps = {{0, 1, 0, 0, 2, StepAction::kReduce}}});
  EXPECT_EQ(Fault(c, schedule),
            "collective schedule: rank 1, elements [0, 2): rank 0 delivers what is not used "
            "(round 1)");
}

TEST(SymbolicCheckTest, FindsTwoWritesOfOneElementInARound) {
  const Collective c = MakeAllReduce(3, 6);
  CollectiveSchedule schedule{.ranks = 3, .rounds = {}};
  schedule.rounds.push_back(
      {.steps = {{0, 2, 0, 0, 4, StepAction::kReduce}, {1, 2, 2, 2, 4, StepAction::kReduce}}});
  EXPECT_THAT(
      Fault(c, schedule),
      HasSubstr("rank 2, elements [2, 6): written by rank 0 and by rank 1 in the same round"));
}

TEST(SymbolicCheckTest, FindsSendingWhatTheRoundOverwrites) {
  const Collective c = MakeAllReduce(2, 6);
  CollectiveSchedule schedule = *BuildSchedule("direct", c);
  ASSERT_TRUE(CheckSchedule(c, schedule).ok());
  schedule.rounds[0].sends_snapshot = false;
  EXPECT_THAT(Fault(c, schedule),
              HasSubstr("rank 0, elements [0, 6): sent while elements [0, 6) are written"));
}

TEST(SymbolicCheckTest, FindsStepsOutOfBoundsOrOutOfPlace) {
  const Collective c = MakeAllReduce(2, 6);
  const auto fault = [&](const CollectiveStep& step) {
    return Fault(c, {.ranks = 2, .rounds = {{.steps = {step}}}});
  };
  EXPECT_THAT(fault({0, 2, 0, 0, 6, StepAction::kCopy}), HasSubstr("but there are 2 ranks"));
  EXPECT_THAT(fault({0, 1, 4, 4, 3, StepAction::kCopy}),
              HasSubstr("reads elements [4, 7) of the 6"));
  EXPECT_THAT(fault({0, 1, -1, -1, 3, StepAction::kCopy}), HasSubstr("reads elements [-1, 2)"));
  EXPECT_THAT(fault({0, 1, 0, 0, 0, StepAction::kCopy}), HasSubstr("moves 0 elements"));
  EXPECT_THAT(fault({0, 1, 0, 1, 2, StepAction::kCopy}), HasSubstr("they stay where they are"));
  EXPECT_THAT(fault({1, 1, 0, 0, 2, StepAction::kCopy}), HasSubstr("sent to itself"));
  EXPECT_THAT(Fault(c, {.ranks = 3, .rounds = {}}), HasSubstr("made for 3 ranks, not 2"));
}

TEST(SymbolicCheckTest, FindsAllToAllDataInTheWrongPlace) {
  const Collective c = MakeAllToAll({{1, 2}, {3, 4}});
  CollectiveSchedule schedule = *BuildSchedule("pairwise", c);
  ASSERT_TRUE(CheckSchedule(c, schedule).ok());
  CollectiveSchedule shifted = schedule;
  for (CollectiveStep& step : shifted.rounds[1].steps) step.source_offset = 1 - step.source_offset;
  EXPECT_THAT(Fault(c, shifted),
              AllOf(HasSubstr("rank 0, elements [1, 4) received: the data of rank 1 "
                              "is missing, there is elements [1, 4) of rank 1")));
  CollectiveSchedule again = schedule;
  again.rounds.push_back(again.rounds[0]);
  EXPECT_THAT(Fault(c, again), HasSubstr("rank 0, elements [0, 1) received: the data of rank 0 "
                                         "arrives 2 times"));
  schedule.rounds.pop_back();
  EXPECT_THAT(Fault(c, schedule), HasSubstr("the data of rank 1 is missing"));
}

// Each step of each schedule is needed, once, in its direction, with its action.
TEST(SymbolicCheckTest, FindsEveryPlantedFaultInEveryRowOfTheTable) {
  std::mt19937 random(5);
  int planted = 0;
  for (const Case& c : AllCases(3, 6)) {
    const CollectiveSchedule good = *BuildSchedule(c.algorithm->name, c.collective, c.options);
    if (good.rounds.empty()) continue;
    for (int i = 0; i < 6; ++i) {
      CollectiveSchedule bad = good;
      CollectiveRound& round = bad.rounds[random() % bad.rounds.size()];
      const size_t at = random() % round.steps.size();
      CollectiveStep& step = round.steps[at];
      const char* kind = "dropped";
      switch (i) {
        case 0:
          round.steps.erase(round.steps.begin() + at);
          break;
        case 1:
          kind = "doubled";
          round.steps.push_back(CollectiveStep(step));
          break;
        case 2:
          kind = "repeated in a round of its own";
          bad.rounds.push_back({.steps = {step}});
          break;
        case 3:
          if (step.from == step.to) continue;
          kind = "swapped ranks";
          std::swap(step.from, step.to);
          break;
        case 4:
          kind = "wrong action";
          step.action = step.action == StepAction::kCopy ? StepAction::kReduce : StepAction::kCopy;
          break;
        default:
          kind = "one element short";
          --step.count;
      }
      ++planted;
      const std::string fault = Fault(c.collective, bad);
      ASSERT_THAT(fault, HasSubstr("rank "))
          << kind << ": " << c.algorithm->name << ", " << ToString(c.collective) << "\n"
          << ToString(good) << "became\n"
          << ToString(bad);
    }
  }
  EXPECT_GE(planted, 2000);
}

}  // namespace
}  // namespace partita
