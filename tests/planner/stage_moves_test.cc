// Stages that are split, and joined again.
#include "planner/space/stage_moves.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "graph/parallel/parts.h"
#include "planner/space/moves.h"
#include "tests/planner/fixture.h"

namespace partita {
namespace {

std::set<int32_t> DevicesAt(const Strategy& strategy, OpId op) {
  std::set<int32_t> devices;
  for (DeviceId device : strategy.configs[op.index()].devices) devices.insert(device.value());
  return devices;
}

// The devices of each operator, one after another, without repeats.
std::vector<std::set<int32_t>> StagesOf(const SearchSpace& space, const Strategy& strategy) {
  std::vector<std::set<int32_t>> stages;
  for (OpId op : space.operators()) {
    std::set<int32_t> devices = DevicesAt(strategy, op);
    if (stages.empty() || stages.back() != devices) stages.push_back(std::move(devices));
  }
  return stages;
}

TEST(StageMovesTest, SplitsADataParallelStepInTwoHalves) {
  const Workplace at("lenet", 64, "p100-4x4", 4);
  const Strategy whole = Ok(DataParallel(at.graph, at.machine->topology));
  const std::vector<std::set<int32_t>> halves = {{0, 1}, {2, 3}};
  std::set<OpId> cuts;
  std::mt19937_64 random(1);
  for (int k = 0; k < 200; ++k) {
    Strategy split = whole;
    Decide(at.graph, split, SplitStage(at.space, whole, random));
    ASSERT_EQ(ValidateStrategy(at.graph, split, 4), absl::OkStatus());
    ASSERT_EQ(StagesOf(at.space, split), halves);
    const auto operators = at.space.operators();
    cuts.insert(*std::find_if(operators.begin(), operators.end(),
                              [&](OpId op) { return DevicesAt(split, op) == halves[1]; }));
  }
  EXPECT_EQ(cuts.size(), at.space.operators().size() - 1);
}

TEST(StageMovesTest, JoinsWhatWasSplit) {
  const Workplace at("lenet", 64, "p100-4x4", 4);
  const Strategy whole = Ok(DataParallel(at.graph, at.machine->topology));
  std::mt19937_64 random(2);
  int joined = 0;
  for (int k = 0; k < 100; ++k) {
    Strategy strategy = whole;
    Decide(at.graph, strategy, SplitStage(at.space, whole, random));
    const std::vector<Decision> join = JoinStages(at.space, strategy, random);
    if (join.empty()) continue;  // the last stage was drawn, which has none behind it
    Decide(at.graph, strategy, join);
    ASSERT_EQ(ValidateStrategy(at.graph, strategy, 4), absl::OkStatus());
    EXPECT_EQ(StagesOf(at.space, strategy).size(), 1u);
    ++joined;
  }
  EXPECT_GE(joined, 20);
}

TEST(StageMovesTest, LeaveAStepAloneThatHasNoStagesForThem) {
  const Workplace at("lenet", 64, "p100-4x4", 3);
  const Strategy one = SingleDevice(at.graph, DeviceId(0));
  const Strategy three = Ok(DataParallel(at.graph, at.machine->topology));
  std::mt19937_64 random(3);
  for (int k = 0; k < 50; ++k) {
    for (const Strategy& strategy : {one, three}) {
      EXPECT_TRUE(SplitStage(at.space, strategy, random).empty());
      EXPECT_TRUE(JoinStages(at.space, strategy, random).empty());
    }
  }
}

TEST(StageMovesTest, AreDrawnOnMoreDevicesAndGiveValidStrategies) {
  const Workplace at("lenet", 64, "k80-16x4", 8);
  Strategy strategy = Ok(DataParallel(at.graph, at.machine->topology));
  std::mt19937_64 random(4);
  std::map<std::string, int> made;
  for (int k = 0; k < 600; ++k) {
    const Proposal proposal = Propose(at.space, strategy, random).value();
    Decide(at.graph, strategy, proposal.decisions);
    ASSERT_EQ(ValidateStrategy(at.graph, strategy, 8), absl::OkStatus()) << proposal.move->name;
    // Back to one stage at times, of which random steps leave little.
    if (++made[proposal.move->name]; k % 20 == 0) {
      strategy = Ok(DataParallel(at.graph, at.machine->topology));
    }
  }
  EXPECT_GE(made["split_stage"], 5);
  EXPECT_GE(made["join_stages"], 1);
}

}  // namespace
}  // namespace partita
