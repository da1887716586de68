// Stages that are split, and joined again.
#include "planner/space/stage_moves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "graph/parallel/parts.h"
#include "planner/search/improve_stages.h"
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
std::vector<std::set<int32_t>> StagesByDevices(const SearchSpace& space, const Strategy& strategy) {
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
    ASSERT_EQ(StagesByDevices(at.space, split), halves);
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
    EXPECT_EQ(StagesByDevices(at.space, strategy).size(), 1u);
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

// Names of the operators of one's recurrent layer, or none.
std::vector<std::string> LayerWith(const Workplace& at, const std::string& name) {
  std::vector<std::string> names;
  for (OpId op : at.space.LayerOf(at.Op(name))) {
    names.push_back(at.graph.op(op).name);
  }
  return names;
}

// The first step has no state to multiply.
TEST(LayerMovesTest, LayersAreFoundByTheirSteps) {
  const Workplace at("rnnlm_tiny", 8, "k80-16x4", 8);
  EXPECT_THAT(LayerWith(at, "lstm.1.1"),
              testing::UnorderedElementsAre("lstm.1.0.x", "lstm.1.0", "lstm.1.1.x", "lstm.1.1.h",
                                            "lstm.1.1", "lstm.1.2.x", "lstm.1.2.h", "lstm.1.2"));
  EXPECT_TRUE(LayerWith(at, "embedding").empty());
  EXPECT_TRUE(Workplace("lenet", 64, "k80-16x4", 8).space.recurrent().empty());
}

TEST(LayerMovesTest, StepsOfALayerChangeTogether) {
  const Workplace at("rnnlm_tiny", 8, "k80-16x4", 8);
  const Strategy whole = Ok(DataParallel(at.graph, at.machine->topology));
  std::mt19937_64 random(5);
  int whole_layers = 0, made = 0;
  for (int k = 0; k < 400; ++k) {
    const Proposal proposal = Propose(at.space, whole, random).value();
    if (std::string(proposal.move->name) != "whole_layer") continue;
    Strategy strategy = whole;
    Decide(at.graph, strategy, proposal.decisions);
    ASSERT_EQ(ValidateStrategy(at.graph, strategy, 8), absl::OkStatus());
    const auto layer = at.space.LayerOf(std::get<OperatorDecision>(proposal.decisions[0]).op);
    ++made;
    whole_layers += proposal.decisions.size() == layer.size();
  }
  EXPECT_GE(made, 50);
  EXPECT_GE(whole_layers, made / 3);
}

TEST(StageMovesTest, CutBetweenRecurrentLayers) {
  const Workplace at("rnnlm_tiny", 8, "k80-16x4", 8);
  const Strategy whole = Ok(DataParallel(at.graph, at.machine->topology));
  std::mt19937_64 random(6);
  std::set<std::set<int32_t>> of_second;
  for (int k = 0; k < 100; ++k) {
    Strategy split = whole;
    Decide(at.graph, split, SplitStage(at.space, whole, random));
    for (const char* layer : {"lstm.0.0", "lstm.1.0"}) {
      const OpId first = at.Op(layer);
      for (OpId step : at.space.LayerOf(first)) {
        ASSERT_EQ(DevicesAt(split, step), DevicesAt(split, first)) << at.graph.op(step).name;
      }
    }
    of_second.insert(DevicesAt(split, at.Op("lstm.1.0")));
  }
  EXPECT_EQ(of_second.size(), 2u);
}

TEST(StageMovesTest, StagesAreCutWhereAskedAndShifted) {
  const Workplace at("lenet", 64, "p100-4x4", 4);
  const Strategy whole = at.Expert("data_parallel");
  const std::vector<StrategyStage> one = StagesOf(at.space, whole);
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].begin, 0u);
  EXPECT_EQ(one[0].end, at.space.operators().size());
  const std::vector<DeviceId> low = {DeviceId(0), DeviceId(1)}, high = {DeviceId(2), DeviceId(3)};
  for (size_t cut = 1; cut < one[0].end; ++cut) {
    Strategy split = whole;
    Decide(at.graph, split, SplitStageAt(at.space, whole, one[0], cut));
    const std::vector<StrategyStage> two = StagesOf(at.space, split);
    ASSERT_EQ(two.size(), 2u);
    EXPECT_EQ(two[0].end, cut);
    EXPECT_EQ(two[1].begin, cut);
    EXPECT_EQ(two[0].devices, low);
    EXPECT_EQ(two[1].devices, high);
    // Shifted anywhere, it is what a cut there makes.
    for (size_t other = 1; other < one[0].end; ++other) {
      Strategy shifted = split, wanted = whole;
      Decide(at.graph, shifted, ShiftStages(at.space, split, std::span(two).first<2>(), other));
      Decide(at.graph, wanted, SplitStageAt(at.space, whole, one[0], other));
      EXPECT_TRUE(shifted == wanted) << cut << " to " << other;
    }
  }
}

TEST(StageMovesTest, ShiftsKeepRecurrentLayersWhole) {
  const Workplace at("rnnlm_tiny", 8, "k80-16x4", 8);
  const Strategy whole = at.Expert("data_parallel");
  const std::vector<StrategyStage> one = StagesOf(at.space, whole);
  ASSERT_EQ(one.size(), 1u);
  Strategy split = whole;
  Decide(at.graph, split, SplitStageAt(at.space, whole, one[0], one[0].end / 2));
  const std::vector<StrategyStage> two = StagesOf(at.space, split);
  ASSERT_EQ(two.size(), 2u);
  std::set<size_t> ends;
  for (size_t cut = 1; cut < one[0].end; ++cut) {
    Strategy shifted = split;
    Decide(at.graph, shifted, ShiftStages(at.space, split, std::span(two).first<2>(), cut));
    for (const char* layer : {"lstm.0.0", "lstm.1.0"}) {
      const OpId first = at.Op(layer);
      for (OpId step : at.space.LayerOf(first)) {
        ASSERT_EQ(DevicesAt(shifted, step), DevicesAt(shifted, first)) << at.graph.op(step).name;
      }
    }
    ends.insert(StagesOf(at.space, shifted)[0].end);
  }
  EXPECT_GE(ends.size(), 3u);
}

TEST(StageMovesTest, StagesThatCannotBeAreLeftAlone) {
  const Workplace at("lenet", 64, "p100-4x4", 4);
  const Strategy whole = at.Expert("data_parallel");
  const std::vector<StrategyStage> one = StagesOf(at.space, whole);
  const StrategyStage &all = one[0], part = {2, 3, all.devices}, odd = {0, all.end, {DeviceId(0)}};
  EXPECT_TRUE(SplitStageAt(at.space, whole, part, 2).empty());  // one operator
  EXPECT_TRUE(SplitStageAt(at.space, whole, odd, 2).empty());   // one device
  const std::vector<StrategyStage> same = {{0, 2, all.devices}, {2, 4, all.devices}};
  EXPECT_TRUE(ShiftStages(at.space, whole, std::span(same).first<2>(), 1).empty());
  Strategy alone = whole;
  const OpId op = at.space.by_layer()[1];
  alone.configs[op.index()] = Unsplit(at.graph.rule(op), DeviceId(1));
  alone.configs[op.index()].devices = {DeviceId(1)};
  EXPECT_EQ(StagesOf(at.space, alone).size(), 3u);
}

// Where all-reduces are dear, halves of the devices are.
TEST(ImproveStagesTest, FindsTheBestCutAndWhereNothingImprovesEnds) {
  const Workplace at("resnet18", 16, "k80-16x4", 16);
  SearchProblem problem{at.evaluator, at.space, {{"start", at.Expert("data_parallel")}}};
  problem.bucket_bytes = Bytes(128 << 20);
  SearchOptions options;
  options.evaluations = 10'000;
  SearchState state(problem, options);
  ASSERT_EQ(state.TryStarts(), absl::OkStatus());
  const WalkPoint start{"start", state.best(), state.best_time()};
  const WalkPoint improved = ImproveStages(problem, state, start, options.evaluations);
  EXPECT_LT(improved.time, start.time);
  EXPECT_EQ(improved.time, state.best_time());
  EXPECT_EQ(improved.strategy, state.best());
  EXPECT_GT(StagesOf(at.space, state.best()).size(), 1u);
  EXPECT_EQ(ValidateStrategy(at.graph, state.best(), 16), absl::OkStatus());
  EXPECT_EQ(ImproveStages(problem, state, improved, options.evaluations).time, improved.time);
  // From a start that is not the best of the search, too.
  EXPECT_EQ(ImproveStages(problem, state, start, options.evaluations).strategy, improved.strategy);
  SearchState few(problem, options);
  ASSERT_EQ(few.TryStarts(), absl::OkStatus());
  ImproveStages(problem, few, start, 3);
  EXPECT_EQ(few.evaluations(), 4);
}

}  // namespace
}  // namespace partita
