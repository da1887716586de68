#include "graph/ops/ops.h"

#include <regex>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace partita {
namespace {

using ::testing::HasSubstr;

TEST(OperatorTableTest, NamesAreUniqueAndPlain) {
  std::set<std::string> names;
  for (const auto& [name, description] : OperatorTable()) {
    EXPECT_TRUE(names.insert(std::string(name)).second) << name;
    EXPECT_TRUE(std::regex_match(std::string(name), std::regex("[a-z][a-z0-9_]*"))) << name;
    EXPECT_FALSE(description.empty()) << name;
    const auto attrs = OpAttrsNamed(name);
    ASSERT_TRUE(attrs.ok());
    EXPECT_EQ(NameOf(*attrs), name);
  }
}

TEST(OperatorTableTest, AnUnknownNameListsTheValidOnes) {
  const auto attrs = OpAttrsNamed("conv3d");
  EXPECT_EQ(attrs.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(attrs.status().message()), HasSubstr("conv2d, pool2d, matmul"));
}

TEST(OperatorTextTest, IsCanonical) {
  EXPECT_EQ(ToString(OpAttrs(Conv2d{.stride = {4, 4}, .pads = {2, 2, 2, 2}})),
            "conv2d stride=[4,4] dilation=[1,1] pads=[2,2,2,2] groups=1");
  EXPECT_EQ(ToString(OpAttrs(Relu{})), "relu");
}

TEST(OperatorTextTest, TellsNearlyEqualNumbersApart) {
  const double a = 0.1;
  const double b = std::nextafter(a, 1.0);
  EXPECT_EQ(ToString(OpAttrs(Scale{.alpha = a})), "scale alpha=0.1 beta=0");
  EXPECT_NE(ToString(OpAttrs(Scale{.alpha = a})), ToString(OpAttrs(Scale{.alpha = b})));
}

TEST(ReluTest, GradientReadsTheResultOnly) {
  const GradientReads reads = ReadsForGradient(OpAttrs(Relu{}), 0);
  EXPECT_TRUE(reads.operands.empty());
  EXPECT_EQ(reads.results, std::vector<int>{0});
}

TEST(UnaryTest, GradientReadsTheResultWhereThatIsEnough) {
  for (const char* function : {"erf", "gelu", "gelu_tanh", "hard_swish"}) {
    const GradientReads reads = ReadsForGradient(OpAttrs(Unary{function}), 0);
    EXPECT_EQ(reads.operands, std::vector<int>{0});
    EXPECT_TRUE(reads.results.empty());
  }
  for (const char* function : {"sigmoid", "tanh"}) {
    const GradientReads reads = ReadsForGradient(OpAttrs(Unary{function}), 0);
    EXPECT_TRUE(reads.operands.empty());
    EXPECT_EQ(reads.results, std::vector<int>{0});
  }
}

TEST(EmbeddingTest, SaysWhichIndicesItTakes) {
  const std::vector<Shape> shapes = {{4, 5}, {7, 3}};
  EXPECT_EQ(IndexLimit(OpAttrs(Embedding{}), 0, shapes), 7);
  EXPECT_EQ(IndexLimit(OpAttrs(Embedding{}), 1, shapes), std::nullopt);
  const std::vector<TensorType> floats = {{DType::kFloat32, {4}}, {DType::kFloat32, {7, 3}}};
  EXPECT_THAT(std::string(InferResults(OpAttrs(Embedding{}), floats).status().message()),
              HasSubstr("wants indices of int32"));
}

TEST(UnaryTest, AnUnknownFunctionListsTheKnownOnes) {
  const std::vector<TensorType> operands = {{DType::kFloat32, {2}}};
  const auto results = InferResults(OpAttrs(Unary{"swish"}), operands);
  EXPECT_EQ(results.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(results.status().message()), HasSubstr("hard_swish, sigmoid, tanh"));
}

TEST(BinaryTest, GradientOfAnAdditionReadsNothing) {
  for (int k : {0, 1}) {
    const GradientReads reads = ReadsForGradient(OpAttrs(Binary{"add"}), k);
    EXPECT_TRUE(reads.operands.empty());
    EXPECT_TRUE(reads.results.empty());
  }
}

TEST(BinaryTest, ShapesThatDoNotBroadcastAreRefused) {
  const std::vector<TensorType> operands = {{DType::kFloat32, {2, 3}}, {DType::kFloat32, {2, 4}}};
  const auto results = InferResults(OpAttrs(Binary{"add"}), operands);
  EXPECT_THAT(std::string(results.status().message()), HasSubstr("do not broadcast"));
}

TEST(OperandChecksTest, MixedTypesIntegersAndHugeRanksAreRefused) {
  const TensorType real = {DType::kFloat32, {2, 3}};
  const TensorType integer = {DType::kInt32, {2, 3}};
  TensorType deep = real;
  deep.shape.assign(40, 1);
  EXPECT_FALSE(InferResults(OpAttrs(Binary{"add"}), std::vector{real, integer}).ok());
  EXPECT_FALSE(InferResults(OpAttrs(Relu{}), std::vector{integer}).ok());
  EXPECT_FALSE(InferResults(OpAttrs(Relu{}), std::vector{deep}).ok());
  EXPECT_FALSE(InferResults(OpAttrs(Relu{}), std::vector<TensorType>{}).ok());
}

TEST(MatMulTest, ABiasIsReadOncePerSplitOfTheSum) {
  const std::vector<TensorType> operands = {
      {DType::kFloat32, {4, 6}}, {DType::kFloat32, {8, 6}}, {DType::kFloat32, {8}}};
  const auto results = InferResults(OpAttrs(MatMul{}), operands);
  ASSERT_TRUE(results.ok());
  const ShardingRule rule = MakeRule(OpAttrs(MatMul{}), operands, *results);
  EXPECT_EQ(ToString(rule), "(n,i),(o,i),(o)once->(n,o)");
  EXPECT_TRUE(rule.operands[2].once_loops == LoopSet{rule.FindLoop("i")});
}

}  // namespace
}  // namespace partita
