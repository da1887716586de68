#include "planner/search/elimination.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/planner/random_choices.h"

namespace partita {
namespace {

TEST(EliminationTest, IsExactOnChains) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    std::mt19937_64 random(seed);
    const ChoiceProblem problem = RandomChain(random);
    const Choices found = MinimizeChoices(problem, 1);
    ASSERT_TRUE(found.exact) << "seed " << seed;
    ASSERT_EQ(found.cost, LeastByTrying(problem)) << "seed " << seed;
    ASSERT_EQ(found.cost, CostOf(problem, found.candidate)) << "seed " << seed;
  }
}

TEST(EliminationTest, IsExactOnSeriesParallelGraphs) {
  int parallel = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    std::mt19937_64 random(seed);
    const ChoiceProblem problem = RandomSeriesParallel(random);
    parallel += problem.edges.size() >= problem.nodes.size();
    const Choices found = MinimizeChoices(problem, 1);
    ASSERT_TRUE(found.exact) << "seed " << seed;
    ASSERT_EQ(found.cost, LeastByTrying(problem)) << "seed " << seed;
    ASSERT_EQ(found.cost, CostOf(problem, found.candidate)) << "seed " << seed;
  }
  EXPECT_GT(parallel, 1000);
}

TEST(EliminationTest, SaysWhetherOtherGraphsAreSolvedExactly) {
  int exact = 0, missed = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    std::mt19937_64 random(seed);
    const ChoiceProblem problem = RandomGraphOfChoices(random);
    const int64_t least = LeastByTrying(problem);
    const Choices all = MinimizeChoices(problem);
    ASSERT_TRUE(all.exact);
    ASSERT_EQ(all.cost, least) << "seed " << seed;
    const Choices few = MinimizeChoices(problem, 2);
    ASSERT_EQ(few.cost, CostOf(problem, few.candidate)) << "seed " << seed;
    ASSERT_GE(few.cost, least) << "seed " << seed;
    if (few.exact) {
      ASSERT_EQ(few.cost, least) << "seed " << seed;
    }
    exact += few.exact;
    missed += few.cost > least;
  }
  EXPECT_GT(exact, 20);
  EXPECT_GT(missed, 20);
}

}  // namespace
}  // namespace partita
