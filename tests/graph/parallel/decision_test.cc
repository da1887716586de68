#include "graph/parallel/decision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "graph/parallel/strategy_text.h"
#include "tests/testing/random_graph.h"
#include "tests/testing/random_strategy.h"

namespace partita {
namespace {

TEST(DecisionTest, AStrategyIsItsDecisionsInAnyOrder) {
  std::mt19937_64 random(81);
  int64_t layouts = 0;
  for (int round = 0; round < 200; ++round) {
    const Graph graph = RandomTrainingGraph(random);
    const Strategy strategy = RandomStrategy(graph, 4, random);
    std::vector<Decision> decisions;
    for (DecisionSubject subject : DecisionSubjects(graph)) {
      decisions.push_back(DecisionIn(strategy, subject));
      EXPECT_EQ(SubjectOf(decisions.back()), subject);
      if (const auto* weight = std::get_if<WeightDecision>(&decisions.back())) {
        layouts += weight->placement == WeightPlacement() ? 0 : 1;
      }
    }
    std::shuffle(decisions.begin(), decisions.end(), random);
    Strategy made = SingleDevice(graph, DeviceId(0));
    Decide(graph, made, decisions);
    EXPECT_EQ(made, strategy) << "round " << round;
  }
  EXPECT_GT(layouts, 100);
}

TEST(DecisionTest, AWeightIsDecidedWhereAllWereLeftToTheDefault) {
  std::mt19937_64 random(82);
  Graph graph = RandomTrainingGraph(random);
  while (graph.weights().empty()) graph = RandomTrainingGraph(random);
  Strategy strategy = SingleDevice(graph, DeviceId(0));
  strategy.weights.clear();
  const size_t last = graph.weights().size() - 1;
  EXPECT_EQ(DecisionIn(strategy, SubjectOfWeight(last)),
            Decision(WeightDecision{static_cast<int32_t>(last), {}}));
  Decide(graph, strategy, WeightDecision{static_cast<int32_t>(last), {.prefetch = 1}});
  ASSERT_EQ(strategy.weights.size(), graph.weights().size());
  EXPECT_EQ(strategy.weights[last].prefetch, 1);
}

TEST(DecisionTest, TextNamesSubjectAndValue) {
  std::mt19937_64 random(83);
  const Graph graph = RandomTrainingGraph(random);
  const Strategy strategy = SingleDevice(graph, DeviceId(2));
  const OpId first = graph.anchors()[0];
  const std::string text = DecisionText(graph, DecisionIn(strategy, SubjectOf(first)));
  EXPECT_THAT(text, testing::StartsWith(graph.op(first).name + " "));
  EXPECT_THAT(StrategyText(graph, strategy), testing::HasSubstr(text));
  EXPECT_EQ(NameOf(graph, SubjectOf(first)), graph.op(first).name);
  EXPECT_EQ(DecisionText(graph, HostDecision{DeviceId(2)}), "host 2\n");
}

}  // namespace
}  // namespace partita
