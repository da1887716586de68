#include "planner/search/integer_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>

#include "planner/search/search_algorithm.h"
#include "tests/planner/fixture.h"
#include "tests/planner/random_choices.h"

namespace partita {
namespace {

ChoiceLimit RandomLimit(const ChoiceProblem& problem, std::mt19937_64& random) {
  ChoiceLimit limit;
  int64_t most = 0;
  for (const auto& costs : problem.nodes) {
    auto& use = limit.use.emplace_back();
    for (size_t c = 0; c < costs.size(); ++c) use.push_back(static_cast<int64_t>(random() % 100));
    most += *std::max_element(use.begin(), use.end());
  }
  limit.most = static_cast<int64_t>(random() % static_cast<uint64_t>(most + 1));
  return limit;
}

// The least cost of choices that keep to the limit; the largest number where none do.
int64_t LeastWithin(const ChoiceProblem& problem, const ChoiceLimit& limit) {
  std::vector<int32_t> candidate(problem.nodes.size(), 0);
  int64_t least = std::numeric_limits<int64_t>::max();
  for (size_t n = 0; n < candidate.size();) {
    if (n == 0 && KeepsTo({&limit, 1}, candidate)) {
      least = std::min(least, CostOf(problem, candidate));
    }
    if (static_cast<size_t>(++candidate[n]) < problem.nodes[n].size()) {
      n = 0;
    } else {
      candidate[n++] = 0;
    }
  }
  return least;
}

ChoiceProblem RandomProblem(uint64_t seed, std::mt19937_64& random) {
  if (seed % 3 == 0) return RandomChain(random);
  return seed % 3 == 1 ? RandomSeriesParallel(random) : RandomGraphOfChoices(random);
}

class IntegerProgramTest : public testing::Test {
 protected:
  void SetUp() override {
    if (IntegerProgramLacks() != nullptr) GTEST_SKIP() << "without " << IntegerProgramLacks();
  }
};

TEST_F(IntegerProgramTest, EqualsTryingAllChoices) {
  for (uint64_t seed = 0; seed < 360; ++seed) {
    std::mt19937_64 random(seed);
    const ChoiceProblem problem = RandomProblem(seed, random);
    const std::vector<Choices> found = IntegerProgramChoices(problem, {}, {});
    ASSERT_FALSE(found.empty()) << "seed " << seed;
    ASSERT_TRUE(found[0].exact) << "seed " << seed;
    ASSERT_EQ(found[0].cost, LeastByTrying(problem)) << "seed " << seed;
    for (const Choices& one : found) {
      ASSERT_EQ(one.cost, CostOf(problem, one.candidate)) << "seed " << seed;
      ASSERT_GE(one.cost, found[0].cost);
    }
  }
}

TEST_F(IntegerProgramTest, EqualsEliminationWhereThatIsExact) {
  int exact = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    std::mt19937_64 random(seed);
    ChoiceProblem problem;
    for (int32_t n = 0; n < 30; ++n) {
      AddNode(random, problem);
      if (n > 0) AddEdge(n - 1, n, random, problem);
      if (n > 2 && random() % 3 == 0) AddEdge(n - 3, n, random, problem);
    }
    for (auto& costs : problem.nodes) {
      for (int64_t& cost : costs) cost *= 1'000'000'007;
    }
    const Choices eliminated = MinimizeChoices(problem, 1);
    if (!eliminated.exact) continue;
    const std::vector<Choices> found = IntegerProgramChoices(problem, {}, {});
    ASSERT_EQ(found.at(0).cost, eliminated.cost) << "seed " << seed;
    ++exact;
  }
  EXPECT_GT(exact, 20);
}

TEST_F(IntegerProgramTest, KeepsToLimits) {
  int bound = 0, impossible = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    const ChoiceProblem problem = RandomProblem(seed, random);
    const ChoiceLimit limit = RandomLimit(problem, random);
    const std::vector<Choices> found = IntegerProgramChoices(problem, {&limit, 1}, {});
    const int64_t least = LeastWithin(problem, limit);
    if (least == std::numeric_limits<int64_t>::max()) {
      ASSERT_TRUE(found.empty()) << "seed " << seed;
      ++impossible;
      continue;
    }
    ASSERT_FALSE(found.empty()) << "seed " << seed;
    ASSERT_EQ(found[0].cost, least) << "seed " << seed;
    for (const Choices& one : found) ASSERT_TRUE(KeepsTo({&limit, 1}, one.candidate));
    bound += least > LeastByTrying(problem);
  }
  EXPECT_GT(bound, 50);
  EXPECT_GT(impossible, 20);
}

TEST_F(IntegerProgramTest, StopEndsWithWhatItBeganFrom) {
  std::mt19937_64 random(1);
  const ChoiceProblem problem = RandomGraphOfChoices(random);
  const std::vector<Choices> found =
      IntegerProgramChoices(problem, {}, {.stop = [] { return true; }});
  ASSERT_FALSE(found.empty());
  EXPECT_LE(found[0].cost, MinimizeChoices(problem, 1).cost);
}

TEST_F(IntegerProgramTest, LeavesOutOnlyWhatIsNeverBest) {
  int left_out = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    const ChoiceProblem problem = RandomProblem(seed, random);
    const auto dominated = DominatedCandidates(problem, {});
    const Choices least = MinimizeChoices(problem);
    ASSERT_TRUE(least.exact);
    for (size_t n = 0; n < dominated.size(); ++n) {
      EXPECT_FALSE(dominated[n][static_cast<size_t>(least.candidate[n])]) << "seed " << seed;
      left_out += static_cast<int>(std::count(dominated[n].begin(), dominated[n].end(), true));
    }
  }
  EXPECT_GT(left_out, 50);
}

TEST(IlpSearchTest, IsNoWorseThanItsStartsOrSaysWhatToInstall) {
  const Workplace at("alexnet", 64, "k80-16x4", 4);
  const SearchProblem problem = at.Problem();
  const auto found = SearchIlp(problem, {});
  if (IntegerProgramLacks() != nullptr) {
    EXPECT_EQ(found.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(found.status().message()), testing::HasSubstr("coinor-libcbc-dev"));
    return;
  }
  EXPECT_LT(Ok(found).evaluation.time, Ok(SearchStarts(problem, {})).evaluation.time);
}

}  // namespace
}  // namespace partita
