#include "planner/lower_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

#include "cost_model/default_cost_model.h"
#include "cost_model/machines.h"
#include "planner/search/search_algorithm.h"
#include "tests/planner/fixture.h"
#include "tests/testing/cases.h"
#include "tests/testing/ok.h"
#include "tests/testing/random_graph.h"

namespace partita {
namespace {

// A few subjects whose candidates have at most `most` combinations.
std::vector<DecisionSubject> SomeSubjects(const SearchSpace& space, size_t most,
                                          std::mt19937_64& random) {
  std::vector<DecisionSubject> subjects;
  size_t combinations = 1;
  for (int draw = 0; draw < 6; ++draw) {
    const DecisionSubject subject = space.subjects()[random() % space.subjects().size()];
    if (std::count(subjects.begin(), subjects.end(), subject) > 0) continue;
    const size_t candidates = space.Candidates(subject).size();
    if (combinations * candidates > most) continue;
    combinations *= candidates;
    subjects.push_back(subject);
  }
  return subjects;
}

TEST(LowerBoundTest, NeverExceedsAnExhaustiveOptimum) {
  constexpr uint64_t kSeeds = CasesOf(260);
  int cases = 0, walked = 0, near = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::mt19937_64 random(seed);
    const Graph graph = RandomTrainingGraph(random);
    const int devices = static_cast<int>(1 + random() % 3);
    const char* names[] = {"p100-4x4", "k80-16x4", "ethernet-4x1g"};
    const auto machine =
        std::make_shared<const Machine>(Ok(FindMachine(names[random() % 3], devices)));
    const auto costs =
        random() % 2 == 0 ? MakeSyntheticCostModel(machine) : MakeDefaultCostModel(machine);
    Evaluator::Options options;
    options.choices.fuse = random() % 4 != 0;
    const Evaluator evaluator(graph, machine->topology, *costs, options);
    const LowerBound bound = LowerBoundOf(evaluator);
    ASSERT_TRUE(bound.is_complete);
    ASSERT_GT(bound.time(), Nanos(0));
    const SearchSpace space(graph, devices);
    for (int k = 0; k < 4; ++k) {
      const std::vector<DecisionSubject> free = SomeSubjects(space, 40, random);
      const Strategy start =
          k == 0 ? SingleDevice(graph, DeviceId(0)) : space.RandomStrategy(random);
      const SearchProblem problem{evaluator, SearchSpace(graph, devices, free), {{"any", start}}};
      const auto found = SearchExhaustive(problem, {.evaluations = 1000});
      if (!found.ok()) continue;  // out of memory
      ASSERT_LE(bound.time(), found->evaluation.time) << "seed " << seed;
      ++cases;
      walked += !free.empty();
      near += found->evaluation.time < bound.time() * 2;
    }
  }
  EXPECT_GE(cases, CasesOf(1000));
  EXPECT_GE(walked, CasesOf(800));
  EXPECT_GE(near, CasesOf(20));
}

TEST(LowerBoundTest, IsNearOnOneDeviceAndHoldsForExperts) {
  for (const char* model : {"lenet", "alexnet", "resnet_tiny", "mlp"}) {
    const Workplace one(model, 64, "p100-4x4", 1);
    const LowerBound alone = LowerBoundOf(one.evaluator);
    EXPECT_GT(alone.time() * 3, one.evaluator.Evaluate(one.Expert("single_device")).time) << model;
    const Workplace at(model, 64, "p100-4x4", 4);
    const LowerBound bound = LowerBoundOf(at.evaluator);
    EXPECT_LT(bound.path, alone.work) << model;
    EXPECT_LT(bound.work, alone.work) << model;
    for (const NamedStrategy& start : ExpertStarts(at.graph, at.machine->topology)) {
      EXPECT_LE(bound.time(), at.evaluator.Evaluate(start.strategy).time) << model << start.name;
    }
  }
}

TEST(LowerBoundTest, SaysWhereItIsNotOfAllSplits) {
  EXPECT_TRUE(LowerBoundOf(Workplace("lenet", 64, "p100-4x4", 8).evaluator).is_complete);
  const LowerBound bound = LowerBoundOf(Workplace("lenet", 64, "p100-4x4", 16).evaluator);
  EXPECT_FALSE(bound.is_complete);
  EXPECT_GT(bound.time(), Nanos(0));
}

TEST(LowerBoundTest, GapIsThePartAboveTheBound) {
  EXPECT_EQ(GapOf(Nanos(200), Nanos(150)), 0.25);
  EXPECT_EQ(GapOf(Nanos(100), Nanos(100)), 0);
  EXPECT_EQ(GapOf(Nanos(100), Nanos(120)), 0);
  EXPECT_EQ(GapOf(Nanos(100), Nanos(0)), 1);
}

}  // namespace
}  // namespace partita
