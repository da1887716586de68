#include "gmock/gmock.h"
#include "graph/ops/ops.h"
#include "gtest/gtest.h"
#include "tests/graph/ops/inference.h"

namespace partita {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ShardingRule RuleOf(const OpAttrs& attrs, const std::vector<TensorType>& operands) {
  const auto results = InferResults(attrs, operands);
  EXPECT_TRUE(results.ok()) << results.status();
  return MakeRule(attrs, operands, *results);
}

std::vector<std::string> LoopNames(const ShardingRule& rule) {
  std::vector<std::string> names;
  for (const LoopDim& loop : rule.loops) names.push_back(loop.name);
  return names;
}

TEST(ReshapeTest, FlattenIsAProductOfTheOperandsLoops) {
  const ShardingRule rule = RuleOf(Reshape{{8, -1}}, {Floats({8, 256, 6, 6})});
  EXPECT_EQ(ToString(rule), "(n,c,d2,d3)->(n,c*d2*d3)");
  const auto results = InferResults(Reshape{{8, -1}}, std::vector{Floats({8, 256, 6, 6})});
  EXPECT_EQ((*results)[0].shape, (Shape{8, 9216}));
}

TEST(ReshapeTest, DimensionsRefineToCommonFactors) {
  const ShardingRule rule = RuleOf(Reshape{{4, 3}}, {Floats({2, 6})});
  EXPECT_EQ(ToString(rule), "(n,r1*c)->(n*r1,c)");
}

TEST(ReshapeTest, ABatchOfOneHasItsLoop) {
  EXPECT_THAT(LoopNames(RuleOf(Reshape{{1, 6}}, {Floats({1, 2, 3})})), ElementsAre("n", "c", "d2"));
}

TEST(ReshapeTest, ShapesWithoutCommonFactorsAreRefused) {
  EXPECT_THAT(InferenceError(Reshape{{6, 4}}, {Floats({4, 6})}), HasSubstr("common factors"));
  EXPECT_THAT(InferenceError(Reshape{{5, 5}}, {Floats({4, 6})}), HasSubstr("not as many elements"));
  EXPECT_THAT(InferenceError(Reshape{{-1, -1}}, {Floats({4, 6})}),
              HasSubstr("not as many elements"));
  EXPECT_THAT(InferenceError(Reshape{{-1, 0}}, {Floats({4, 6})}),
              HasSubstr("not as many elements"));
  EXPECT_THAT(InferenceError(Reshape{{-1, 5}}, {Floats({4, 6})}),
              HasSubstr("not as many elements"));
  EXPECT_THAT(InferenceError(Reshape{{int64_t{1} << 62, 4, 4}}, {Floats({4, 6})}),
              HasSubstr("not as many elements"));
}

TEST(TransposeTest, WantsAPermutation) {
  EXPECT_EQ(ToString(RuleOf(Transpose{{1, 2, 0}}, {Floats({2, 3, 4})})), "(n,c,d2)->(c,d2,n)");
  EXPECT_THAT(InferenceError(Transpose{{0, 0}}, {Floats({2, 3})}), HasSubstr("permutation"));
  EXPECT_THAT(InferenceError(Transpose{{0}}, {Floats({2, 3})}), HasSubstr("permutation"));
}

TEST(ConcatTest, OperandsAreShiftedWindows) {
  const ShardingRule rule = RuleOf(Concat{.axis = 1}, {Floats({2, 3}), Floats({2, 5})});
  EXPECT_EQ(rule.loops[1].extent, 8);
  EXPECT_EQ(rule.operands[1].dims[1].lo, -3);
  EXPECT_THAT(InferenceError(Concat{.axis = 1}, {Floats({2, 3}), Floats({3, 3})}),
              HasSubstr("differ"));
  EXPECT_THAT(InferenceError(Concat{.axis = 2}, {Floats({2, 3}), Floats({2, 3})}),
              HasSubstr("axis 2"));
}

TEST(CropTest, WantsARegionOfTheTensor) {
  EXPECT_THAT(InferenceError(Crop{{0, 1}, {2, 4}}, {Floats({2, 3})}), HasSubstr("no region"));
  EXPECT_THAT(InferenceError(Crop{{0, 2}, {2, 2}}, {Floats({2, 3})}), HasSubstr("no region"));
}

TEST(PadTest, LeavesSomething) {
  EXPECT_THAT(InferenceError(Pad{{0, -2, 0, -1}}, {Floats({2, 3})}), HasSubstr("leaves nothing"));
  EXPECT_THAT(InferenceError(Pad{{0, 1}}, {Floats({2, 3})}), HasSubstr("should be 4 numbers"));
}

}  // namespace
}  // namespace partita
