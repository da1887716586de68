#include "graph/parallel/decision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "graph/parallel/strategy_text.h"
#include "tests/testing/random_collectives.h"
#include "tests/testing/random_graph.h"
#include "tests/testing/random_strategy.h"

namespace partita {
namespace {

TEST(DecisionTest, AStrategyIsItsDecisionsInAnyOrder) {
  std::mt19937_64 random(81);
  int64_t layouts = 0, algorithms = 0, buckets = 0;
  for (int round = 0; round < 200; ++round) {
    const Graph graph = RandomTrainingGraph(random);
    const PartitionOptions options{.devices = 4};
    Strategy strategy =
        WithRandomCollectives(graph, RandomStrategy(graph, 4, random), options, random);
    std::sort(strategy.buckets.begin(), strategy.buckets.end(),
              [](const Bucket& a, const Bucket& b) { return a.members[0] < b.members[0]; });
    algorithms += static_cast<int64_t>(strategy.algorithms.size());
    buckets += static_cast<int64_t>(strategy.buckets.size());
    std::vector<Decision> decisions;
    for (DecisionSubject subject : DecisionSubjects(graph, strategy)) {
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
  EXPECT_GT(algorithms, 100);
  EXPECT_GT(buckets, 20);
}

TEST(DecisionTest, CollectivesAreDecidedOneByOne) {
  std::mt19937_64 random(84);
  const Graph graph = RandomTrainingGraph(random);
  Strategy strategy = SingleDevice(graph, DeviceId(0));
  const auto id = [](int tensor) { return CollectiveStepId{TensorId(tensor), 0}; };
  const auto members = [&](size_t bucket) { return strategy.buckets[bucket].members; };
  using testing::ElementsAre;
  Decide(graph, strategy, AlgorithmDecision{{id(3), "ring"}});
  Decide(graph, strategy, AlgorithmDecision{{id(1), "direct"}});
  Decide(graph, strategy, AlgorithmDecision{{id(3), "direct"}});
  EXPECT_THAT(strategy.algorithms,
              ElementsAre(AlgorithmChoice{id(1), "direct"}, AlgorithmChoice{id(3), "direct"}));
  Decide(graph, strategy, AlgorithmDecision{{id(1), ""}});
  EXPECT_THAT(strategy.algorithms, ElementsAre(AlgorithmChoice{id(3), "direct"}));
  EXPECT_EQ(DecisionIn(strategy, SubjectOf(id(1))), Decision(AlgorithmDecision{{id(1), ""}}));

  Decide(graph, strategy, BucketDecision{{{id(4), id(5), id(6)}, "ring"}});
  Decide(graph, strategy, BucketDecision{{{id(1), id(2)}, ""}});
  ASSERT_EQ(strategy.buckets.size(), 2u);
  EXPECT_THAT(members(0), ElementsAre(id(1), id(2)));
  // A member leaves the bucket that it was in; one that is left alone is none.
  Decide(graph, strategy, BucketDecision{{{id(1), id(5)}, ""}});
  EXPECT_THAT(members(0), ElementsAre(id(1), id(5)));
  EXPECT_THAT(members(1), ElementsAre(id(4), id(6)));
  Decide(graph, strategy, BucketDecision{{{id(3), id(6)}, ""}});
  ASSERT_EQ(strategy.buckets.size(), 2u);
  EXPECT_THAT(members(1), ElementsAre(id(3), id(6)));
  Decide(graph, strategy, BucketDecision{{{id(3)}, ""}});
  EXPECT_THAT(strategy.buckets, testing::SizeIs(1));
  EXPECT_EQ(DecisionText(graph, DecisionIn(strategy, SubjectOfBucket(id(3)))), "");
  // An algorithm is that of a bucket or of a collective outside of all.
  Decide(graph, strategy, AlgorithmDecision{{id(5), "direct"}});
  EXPECT_THAT(strategy.buckets, testing::IsEmpty());
  Decide(graph, strategy, BucketDecision{{{id(3), id(5)}, ""}});
  EXPECT_THAT(strategy.algorithms, testing::IsEmpty());
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
