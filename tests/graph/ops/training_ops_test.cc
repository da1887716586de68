// The rows that training adds: what they refuse, and what their parts are.

#include <limits>

#include "gmock/gmock.h"
#include "graph/ops/ops.h"
#include "gtest/gtest.h"

namespace partita {
namespace {

using ::testing::HasSubstr;

TensorType F32(const Shape& shape) { return {DType::kFloat32, shape}; }
TensorType F64(const Shape& shape) { return {DType::kFloat64, shape}; }
TensorType I32(const Shape& shape) { return {DType::kInt32, shape}; }

std::string ErrorOf(const OpAttrs& attrs, const std::vector<TensorType>& operands) {
  const auto results = InferResults(attrs, operands);
  if (results.ok()) return "";
  EXPECT_EQ(results.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(results.status().message());
}

TEST(TensorFormTest, WrongOperandsAreRefusedWithWhatWasWanted) {
  EXPECT_THAT(ErrorOf(SumExp{}, {F32({2, 3})}), HasSubstr("wants 2 operands; found 1"));
  EXPECT_THAT(ErrorOf(SumExp{}, {F32({2, 3}), F32({3})}), HasSubstr("should be f32[2]"));
  EXPECT_THAT(ErrorOf(RowMax{}, {I32({2, 3})}), HasSubstr("reals"));
  EXPECT_THAT(ErrorOf(RowMax{}, {F32({})}), HasSubstr("rank >= 1"));
  EXPECT_THAT(ErrorOf(BatchMoments{}, {F32({3})}), HasSubstr("rank >= 2"));
  EXPECT_THAT(ErrorOf(RowMax{}, {F32(Shape(40, 1))}), HasSubstr("rank 12 at most"));
  EXPECT_THAT(ErrorOf(CountCorrect{}, {F32({2, 3}), F32({2}), F32({2})}),
              HasSubstr("should be i32[2]"));
}

TEST(TensorFormTest, SumsOfBatchNormAreDoubleExceptInTheRing) {
  const auto sums = InferResults(OpAttrs(BatchMoments{}), std::vector{F32({2, 3})});
  EXPECT_EQ((*sums)[0], F64({3}));
  const auto ring =
      InferResults(OpAttrs(BatchMoments{}), std::vector{TensorType{DType::kRing64, {2, 3}}});
  EXPECT_EQ((*ring)[1], (TensorType{DType::kRing64, {3}}));
}

TEST(TensorFormTest, WrongAttributesAreRefused) {
  const BatchNormFields fields{.count = 0};
  EXPECT_THAT(ErrorOf(BatchNormalize{fields}, {}), HasSubstr("0 elements"));
  EXPECT_THAT(ErrorOf(BatchNormalize{{.count = 1, .epsilon = -1}}, {}), HasSubstr("epsilon"));
  EXPECT_THAT(ErrorOf(Dropout{.ratio = 1}, {F32({2})}), HasSubstr("below 1"));
  EXPECT_THAT(ErrorOf(Dropout{.ratio = -0.1}, {F32({2})}), HasSubstr("at least 0"));
  EXPECT_THAT(ErrorOf(CrossEntropy{{.rows = 0}}, {}), HasSubstr("0 rows"));
  EXPECT_THAT(ErrorOf(RunningMean{{.count = 4, .momentum = 2}}, {}), HasSubstr("[0, 1]"));
}

TEST(LrnTest, WrongWindowsAreRefused) {
  const std::vector<TensorType> x = {F32({2, 8, 3, 3})};
  EXPECT_EQ(ErrorOf(Lrn{}, x), "");
  EXPECT_NE(ErrorOf(Lrn{.size = 0}, x), "");
  EXPECT_NE(ErrorOf(Lrn{.size = 3, .pads = {2, 1}}, x), "");
  EXPECT_NE(ErrorOf(Lrn{.pads = {-1, 2}}, x), "");
  EXPECT_NE(ErrorOf(Lrn{.pads = {2}}, x), "");
  EXPECT_NE(ErrorOf(Lrn{.alpha = std::numeric_limits<double>::infinity()}, x), "");
  EXPECT_NE(ErrorOf(Lrn{}, {F32({8})}), "");
  EXPECT_NE(ErrorOf(Lrn{}, {I32({2, 8})}), "");
}

TEST(LrnTest, APartOfTheChannelsIsAnLrnOfItsOwn) {
  const Lrn lrn;  // 5 channels
  const std::vector<TensorType> x = {F32({1, 8, 2, 2})};
  const ShardingRule rule = MakeRule(lrn, x, x);
  const std::vector<Shape> shapes = {x[0].shape};
  const auto part = ViewPart(rule, shapes, shapes, {{0, 1}, {3, 6}, {0, 2}, {0, 2}});
  ASSERT_TRUE(part.ok());
  EXPECT_EQ(part->operands[0].box[1], (Interval{1, 8}));
  const Lrn local = Localize(lrn, *part);
  EXPECT_EQ(local.pads, (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(local.lead(), 2);
  const std::vector<TensorType> piece = {F32({1, 7, 2, 2})};
  EXPECT_EQ((*InferResults(local, piece))[0].shape[1], 3);
}

TEST(DropoutTest, RunsAgreeWithSingleElements) {
  const DropoutMask mask(0.5, 1, 2, 3);
  for (int64_t first : {0, 1, 2, 3, 5}) {
    for (int64_t count : {0, 1, 2, 3, 4, 9}) {
      int64_t visited = 0;
      mask.ForEachOfRun(first, count, [&](int64_t k, bool keeps) {
        EXPECT_EQ(k, visited++);
        EXPECT_EQ(keeps, mask.Keeps(first + k));
      });
      EXPECT_EQ(visited, count);
    }
  }
}

}  // namespace
}  // namespace partita
