// What a change costs by the operators around it alone.
#include "planner/search/local_costs.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "graph/parallel/decision.h"
#include "planner/space/neighbour_splits.h"
#include "tests/planner/fixture.h"

namespace partita {
namespace {

class LocalCostsTest : public testing::TestWithParam<std::string> {};

// One that has kept what it found for others, against one that prices all operators anew.
TEST_P(LocalCostsTest, ChangeAsThoseOfAllOperatorsDo) {
  const Workplace at(GetParam(), 8, "p100-4x4", 4);
  LocalCosts kept(at.evaluator);
  std::mt19937_64 random(5);
  const auto anchors = at.graph.anchors();
  int compared = 0, dearer = 0, cheaper = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const Strategy before = at.space.RandomStrategy(random);
    Strategy after = before;
    std::vector<OpId> changed = {anchors[random() % anchors.size()]};
    if (trial % 2 == 1) {
      for (OpId behind : ChainBehind(at.graph, changed[0])) changed.push_back(behind);
    }
    for (OpId op : changed) {
      Decide(at.graph, after, OperatorDecision{op, at.space.RandomConfig(op, random)});
    }
    const auto here = kept.Of(before, changed), there = kept.Of(after, changed);
    const auto all_here = LocalCosts(at.evaluator).Of(before, anchors);
    const auto all_there = LocalCosts(at.evaluator).Of(after, anchors);
    if (!all_here.has_value() || !all_there.has_value()) continue;
    ASSERT_TRUE(here.has_value() && there.has_value());
    // Steps of a sequence are alike, but at its ends.
    const double most = GetParam() == "rnnlm" ? 0.05 * static_cast<double>(*here) : 0;
    EXPECT_NEAR(static_cast<double>(*there - *here), static_cast<double>(*all_there - *all_here),
                most)
        << at.graph.op(changed[0]).name;
    ++compared;
    dearer += *there > *here;
    cheaper += *there < *here;
  }
  EXPECT_GE(compared, 30);
  EXPECT_GE(dearer, 5);
  EXPECT_GE(cheaper, 5);
}

INSTANTIATE_TEST_SUITE_P(Models, LocalCostsTest, testing::Values("lenet", "resnet18", "rnnlm"),
                         [](const auto& one) { return one.param; });

TEST(LocalCostsOfOneTest, CountWhatHasToMove) {
  const Workplace at("lenet", 64, "p100-4x4", 4);
  LocalCosts costs(at.evaluator);
  const OpId conv = at.Op("conv2");
  const Strategy one = at.Expert("single_device");
  const auto alone = costs.Of(one, {&conv, 1});
  ASSERT_TRUE(alone.has_value());
  Strategy apart = one;
  apart.configs[conv.index()].devices = {DeviceId(1)};
  const auto moved = costs.Of(apart, {&conv, 1});
  ASSERT_TRUE(moved.has_value());
  EXPECT_GT(*moved, *alone);
}

TEST(LocalCostsOfOneTest, AreExactUpToWhatIsAskedFor) {
  const Workplace at("lenet", 64, "p100-4x4", 4);
  LocalCosts costs(at.evaluator);
  std::mt19937_64 random(7);
  int compared = 0;
  for (int trial = 0; trial < 40; ++trial) {
    const Strategy strategy = at.space.RandomStrategy(random);
    const OpId pool = at.Op("pool1"), conv = at.Op("conv2");
    const OpId both[] = {pool, conv};
    LocalCosts asked(at.evaluator);
    const auto all = costs.Of(strategy, both);
    if (!all.has_value()) continue;
    EXPECT_EQ(asked.Of(strategy, both, *all), all);
    const auto beyond = asked.Of(strategy, both, *all / 2);
    ASSERT_TRUE(beyond.has_value());
    EXPECT_GT(*beyond, *all / 2);
    EXPECT_LE(*beyond, *all);
    ++compared;
  }
  EXPECT_GE(compared, 10);
}

}  // namespace
}  // namespace partita
