#include "graph/sharding_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/ops/ops.h"

namespace partita {
namespace {

using ::testing::HasSubstr;

const std::vector<LoopDim> kLoops = {{"c", 4}, {"h", 3}, {"w", 2}};

TEST(UnclippedIntervalTest, AWindowReachesOverTheTensorsEnds) {
  // Kernel 3, stride 2, pad 1.
  const DimMap map = Window(1, 2, -1, 2);
  const std::vector<Interval> blocks = {{0, 4}, {1, 3}, {0, 2}};
  EXPECT_EQ(*UnclippedInterval(map, kLoops, blocks), (WideInterval{1, 6}));
}

TEST(UnclippedIntervalTest, AProductIsOneIntervalWhenOnlyItsFirstWideLoopIsSplit) {
  const DimMap flat = Product({0, 1, 2});
  auto view = [&](std::vector<Interval> blocks) { return UnclippedInterval(flat, kLoops, blocks); };
  EXPECT_EQ(*view({{0, 4}, {0, 3}, {0, 2}}), (WideInterval{0, 24}));
  EXPECT_EQ(*view({{1, 3}, {0, 3}, {0, 2}}), (WideInterval{6, 18}));
  EXPECT_EQ(*view({{2, 3}, {1, 3}, {0, 2}}), (WideInterval{14, 18}));
  EXPECT_EQ(*view({{2, 3}, {1, 2}, {1, 2}}), (WideInterval{15, 16}));
  EXPECT_THAT(std::string(view({{0, 2}, {0, 2}, {0, 2}}).status().message()), HasSubstr("'h'"));
  EXPECT_THAT(std::string(view({{0, 4}, {0, 3}, {0, 1}}).status().message()), HasSubstr("'w'"));
}

TEST(UnclippedIntervalTest, AnEmptyBlockCoversNothingEvenThroughAWideWindow) {
  const std::vector<Interval> blocks = {{0, 4}, {2, 2}, {0, 2}};
  EXPECT_TRUE(UnclippedInterval(Window(1, 1, -2, 3), kLoops, blocks)->empty());
  EXPECT_TRUE(UnclippedInterval(Product({0, 1, 2}), kLoops, blocks)->empty());
}

TEST(UnclippedIntervalTest, WithoutLoopsTheWindowIsFixed) {
  EXPECT_EQ(*UnclippedInterval(Fixed(2, 5), kLoops, std::vector<Interval>(3)),
            (WideInterval{2, 5}));
}

TEST(ShardingRuleTest, OnceHoldsAlongTheSummedLoopsThatTheOperandLacks) {
  ShardingRule rule;
  rule.loops = {{"n", 4}, {"o", 3}, {"i", 5}};
  rule.operands = {{.dims = {Along(0), Along(2)}},
                   {.dims = {Along(1), Along(2)}},
                   {.dims = {Along(1)}, .once = true}};
  rule.results = {{.dims = {Along(0), Along(1)}}};
  rule = std::move(rule).Finished();
  EXPECT_TRUE(rule.operands[0].once_loops.empty());
  EXPECT_EQ(rule.operands[2].once_loops, LoopSet({2}));
  // n indexes the result: every sample's part adds the bias, and the bias gradient sums over n.
  const ShardingRule gradient = GradientRule(rule, 2, {});
  EXPECT_EQ(gradient.operands.size(), 1u);
  EXPECT_EQ(gradient.results[0].once_loops, LoopSet({2}));
  EXPECT_EQ(LoopsOf(gradient.results[0].dims), LoopSet({1}));
}

TEST(ShardingRuleTest, AGradientReadsWhatItSaysAndTheResultsGradients) {
  ShardingRule rule;
  rule.loops = {{"n", 4}, {"c", 3}};
  rule.operands = {{.dims = {Along(0), Along(1)}}, {.dims = {Along(1)}}};
  rule.results = {{.dims = {Along(0), Along(1)}}, {.dims = {Along(0)}}};
  rule = std::move(rule).Finished();
  const ShardingRule gradient = GradientRule(rule, 0, {.operands = {1}, .results = {1}});
  ASSERT_EQ(gradient.operands.size(), 4u);  // operand 1, result 1, two result gradients
  EXPECT_EQ(gradient.operands[0].dims, rule.operands[1].dims);
  EXPECT_EQ(gradient.operands[1].dims, rule.results[1].dims);
  EXPECT_EQ(gradient.operands[2].dims, rule.results[0].dims);
  EXPECT_EQ(gradient.operands[3].dims, rule.results[1].dims);
  ASSERT_EQ(gradient.results.size(), 1u);
  EXPECT_EQ(gradient.results[0].dims, rule.operands[0].dims);
}

TEST(ShardingRuleTest, ValidateFindsMapsThatDoNotFit) {
  const TensorType matrix{DType::kFloat32, {4, 3}};
  ShardingRule rule;
  rule.loops = {{"n", 4}, {"c", 3}};
  rule.operands = {{.dims = {Along(0), Along(1)}}};
  rule.results = {{.dims = {Along(0), Along(1)}}};
  EXPECT_TRUE(ValidateRule(rule, {&matrix, 1}, {&matrix, 1}).ok());
  rule.operands[0].dims.pop_back();
  EXPECT_FALSE(ValidateRule(rule, {&matrix, 1}, {&matrix, 1}).ok());
  rule.operands[0].dims.push_back(Along(2));
  EXPECT_FALSE(ValidateRule(rule, {&matrix, 1}, {&matrix, 1}).ok());
  rule.operands[0].dims[1] = Fixed(3, 5);
  EXPECT_FALSE(ValidateRule(rule, {&matrix, 1}, {&matrix, 1}).ok());
}

}  // namespace
}  // namespace partita
