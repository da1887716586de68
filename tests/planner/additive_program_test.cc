// Choices that cost least, with exchanges priced whole only where choices have them.
#include "planner/search/additive_program.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "graph/support/worker_threads.h"
#include "planner/search/elimination.h"
#include "tests/planner/fixture.h"
#include "tests/testing/cases.h"

namespace partita {
namespace {

struct ProgramCase {
  std::string model;
  int64_t batch;
  std::string machine;
  int devices;
  bool in_part;  // whether choices are found in less time than all exchanges are priced
};

class LeastChoicesTest : public testing::TestWithParam<ProgramCase> {
 protected:
  LeastChoicesTest()
      : at(GetParam().model, GetParam().batch, GetParam().machine, GetParam().devices),
        problem(at.Problem()),
        base(problem.starts[0].strategy) {}

  const Workplace at;
  const SearchProblem problem;
  const Strategy base;
  const std::function<bool()> go_on = [] { return false; };
};

TEST_P(LeastChoicesTest, CostNoMoreThanWithAllExchangesPriced) {
  WorkerThreads one(1, "pricing"), two(2, "pricing");
  AdditiveProgram whole(problem, base, go_on, one);
  ASSERT_TRUE(whole.FindCosts() && whole.PriceWhole());
  for (bool together : {true, false}) {
    for (double share : kCommunicationShares) {
      SCOPED_TRACE(testing::Message() << "share " << share << (together ? ", together" : ""));
      AdditiveProgram asked(problem, base, go_on, two);
      ASSERT_TRUE(asked.FindCosts());
      const std::optional<Choices> least = asked.LeastChoices(share, together);
      ASSERT_TRUE(least.has_value());
      const ChoiceProblem choices = whole.ChoicesAt(share, together);
      EXPECT_EQ(least->cost, CostOf(choices, least->candidate));
      const Choices wanted = MinimizeChoices(choices, together ? 1024 : 1);
      if (least->exact && wanted.exact) {
        EXPECT_EQ(least->cost, wanted.cost);
      }
      EXPECT_LE(least->cost, wanted.cost + wanted.cost / 50);
    }
  }
}

TEST_P(LeastChoicesTest, ArePricedInPartWhereThatSavesTime) {
  WorkerThreads one(1, "pricing");
  AdditiveProgram whole(problem, base, go_on, one), asked(problem, base, go_on, one);
  ASSERT_TRUE(whole.FindCosts() && asked.FindCosts());
  const ChoiceProblem before = asked.ChoicesAt(1, true);
  ASSERT_TRUE(asked.LeastChoices(1, true).has_value());
  ASSERT_TRUE(whole.PriceWhole());
  const ChoiceProblem after = asked.ChoicesAt(1, true), all = whole.ChoicesAt(1, true);
  int64_t sums = 0, priced = 0, least = 0;
  for (size_t e = 0; e < all.edges.size(); ++e) {
    for (size_t k = 0; k < all.edges[e].cost.size(); ++k) {
      if (before.edges[e].cost[k] == all.edges[e].cost[k]) continue;
      ++sums;
      priced += after.edges[e].cost[k] == all.edges[e].cost[k];
      least += before.edges[e].cost[k] < all.edges[e].cost[k];
    }
  }
  if (!GetParam().in_part) {
    EXPECT_EQ(sums, 0);
    return;
  }
  EXPECT_GT(sums, 10);
  EXPECT_LT(priced, sums);
  EXPECT_GE(least, sums - sums / 50) << "of " << sums;
}

TEST_P(LeastChoicesTest, AreNotFoundWhereStopped) {
  WorkerThreads one(1, "pricing");
  std::atomic<bool> is_stopped = false;
  const std::function<bool()> stop = [&] { return is_stopped.load(); };
  AdditiveProgram program(problem, base, stop, one);
  ASSERT_TRUE(program.FindCosts());
  is_stopped = true;
  EXPECT_FALSE(program.LeastChoices(1, true).has_value());
  EXPECT_FALSE(program.PriceWhole());
}

const std::vector<ProgramCase> kCases = {{"lenet", 64, "p100-4x4", 4, true},
                                         {"resnet18", 32, "p100-4x4", 8, false},
                                         {"alexnet", 256, "k80-16x4", 32, true}};
INSTANTIATE_TEST_SUITE_P(Models, LeastChoicesTest, testing::ValuesIn(CasesOf(kCases)),
                         [](const auto& one) { return one.param.model; });

}  // namespace
}  // namespace partita
