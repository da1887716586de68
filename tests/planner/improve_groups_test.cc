// Groups of like operators that are split as those around them.
#include "planner/search/improve_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "planner/space/moves.h"
#include "planner/space/neighbour_splits.h"
#include "tests/planner/fixture.h"

namespace partita {
namespace {

using testing::Contains;

TEST(NeighbourSplitsTest, HaveThoseOfTheOperatorsAround) {
  const Workplace at("lenet", 64, "p100-4x4", 4);
  const Strategy all = Ok(DataParallel(at.graph, at.machine->topology));
  for (OpId op : at.space.operators()) {
    Strategy strategy = all;
    strategy.configs[op.index()] = Unsplit(at.graph.rule(op), DeviceId(2));
    const std::vector<ParallelConfig> splits = NeighbourSplits(at.space, strategy, op);
    EXPECT_THAT(splits, Contains(all.configs[op.index()])) << at.graph.op(op).name;
    for (const ParallelConfig& split : splits) {
      EXPECT_TRUE(at.space.Fits(op, split));
      EXPECT_NE(split, strategy.configs[op.index()]);
      EXPECT_EQ(std::count(splits.begin(), splits.end(), split), 1);
    }
  }
}

TEST(NeighbourSplitsTest, OfALossHaveTheClassesOfTheLayerBeforeIt) {
  const Workplace at("rnnlm", 8, "p100-4x4", 4);
  const OpId fc = at.Op("fc"), loss = at.Op("loss");
  Strategy strategy = Ok(DataParallel(at.graph, at.machine->topology));
  ParallelConfig& by_class = strategy.configs[fc.index()];
  std::fill(by_class.degrees.begin(), by_class.degrees.end(), 1);
  by_class.degrees[static_cast<size_t>(at.graph.rule(fc).FindLoop("o"))] = 4;
  const auto wanted = WithProducersBlocks(at.space, fc, by_class, loss);
  ASSERT_TRUE(wanted.has_value());
  EXPECT_THAT(NeighbourSplits(at.space, strategy, loss), Contains(*wanted));
}

TEST(ImproveGroupsTest, LikeOperatorsFollowTogether) {
  const Workplace at("rnnlm", 8, "p100-4x4", 4);
  // All cells and their products of the second layer in one place, all else split by sample.
  Strategy start = Ok(DataParallel(at.graph, at.machine->topology));
  std::vector<OpId> moved;
  for (OpId op : at.space.operators()) {
    if (at.graph.op(op).name.rfind("lstm.1.", 0) == 0) moved.push_back(op);
  }
  ASSERT_GT(moved.size(), 3u);
  for (OpId op : moved) start.configs[op.index()] = Unsplit(at.graph.rule(op), DeviceId(0));
  const SearchProblem problem{at.evaluator, at.space, {{"start", start}}};
  SearchOptions options;
  options.evaluations = 10'000;
  SearchState state(problem, options);
  ASSERT_EQ(state.TryStarts(), absl::OkStatus());
  const Nanos before = state.best_time();
  ImproveGroups(problem, state, options.evaluations);
  EXPECT_LT(state.best_time(), before);
  EXPECT_EQ(at.evaluator.EvaluateBriefly(state.best(), kNoCutoff).time, state.best_time());
  EXPECT_EQ(ValidateStrategy(at.graph, state.best(), 4), absl::OkStatus());
  // What had one configuration has one.
  for (OpId op : at.space.operators()) {
    for (OpId like : at.space.AllLike(op)) {
      if (start.configs[like.index()] != start.configs[op.index()]) continue;
      EXPECT_EQ(state.best().configs[like.index()], state.best().configs[op.index()]);
    }
  }
}

TEST(ImproveGroupsTest, EndsWithItsBudgetAndWhereNothingImproves) {
  const Workplace at("lenet", 64, "p100-4x4", 4);
  const SearchProblem problem{
      at.evaluator, at.space, {{"start", Ok(DataParallel(at.graph, at.machine->topology))}}};
  SearchOptions options;
  options.evaluations = 10'000;
  SearchState few(problem, options), all(problem, options);
  ASSERT_EQ(few.TryStarts(), absl::OkStatus());
  ASSERT_EQ(all.TryStarts(), absl::OkStatus());
  ImproveGroups(problem, few, 5);
  EXPECT_GE(few.evaluations(), 6);
  EXPECT_LE(few.evaluations(), 6 + 20);  // the group at hand is tried to its end
  ImproveGroups(problem, all, options.evaluations);
  EXPECT_LE(all.best_time(), few.best_time());
  const int64_t evaluations = all.evaluations();
  const Nanos best = all.best_time();
  EXPECT_LT(evaluations, 2'000);
  ImproveGroups(problem, all, options.evaluations);
  EXPECT_EQ(all.best_time(), best);
}

}  // namespace
}  // namespace partita
