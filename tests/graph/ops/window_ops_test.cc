#include "gmock/gmock.h"
#include "graph/ops/ops.h"
#include "gtest/gtest.h"
#include "tests/graph/ops/inference.h"

namespace partita {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Shape ResultShape(const OpAttrs& attrs, const std::vector<TensorType>& operands) {
  const auto results = InferResults(attrs, operands);
  EXPECT_TRUE(results.ok()) << results.status();
  return results.ok() ? (*results)[0].shape : Shape{};
}

// The local attributes of the part whose "oh" loop is block `k` of `parts`.
template <class A>
A PartOf(const A& attrs, const Shape& x, int64_t parts, int64_t k) {
  const std::vector<TensorType> operands = {Floats(x)};
  const auto results = InferResults(attrs, operands);
  const ShardingRule rule = MakeRule(attrs, operands, *results);
  std::vector<Interval> blocks;
  for (const LoopDim& loop : rule.loops) {
    blocks.push_back(loop.name == "oh" ? BlockOf(loop.extent, parts, k) : Interval{0, loop.extent});
  }
  const auto view =
      ViewPart(rule, std::vector<Shape>{x}, std::vector<Shape>{(*results)[0].shape}, blocks);
  return Localize(attrs, *view);
}

TEST(Conv2dTest, AlexNetTakes714MillionMultiplyAddsPerImage) {
  struct Layer {
    OpAttrs attrs;
    Shape x, w;
  };
  const std::vector<Layer> layers = {
      {Conv2d{.stride = {4, 4}, .pads = {2, 2, 2, 2}}, {1, 3, 224, 224}, {64, 3, 11, 11}},
      {Conv2d{.pads = {2, 2, 2, 2}}, {1, 64, 27, 27}, {192, 64, 5, 5}},
      {Conv2d{.pads = {1, 1, 1, 1}}, {1, 192, 13, 13}, {384, 192, 3, 3}},
      {Conv2d{.pads = {1, 1, 1, 1}}, {1, 384, 13, 13}, {256, 384, 3, 3}},
      {Conv2d{.pads = {1, 1, 1, 1}}, {1, 256, 13, 13}, {256, 256, 3, 3}},
      {MatMul{}, {1, 9216}, {4096, 9216}},
      {MatMul{}, {1, 4096}, {4096, 4096}},
      {MatMul{}, {1, 4096}, {1000, 4096}},
  };
  int64_t total = 0;
  for (const Layer& layer : layers) {
    const std::vector<TensorType> operands = {Floats(layer.x), Floats(layer.w)};
    const auto results = InferResults(layer.attrs, operands);
    ASSERT_TRUE(results.ok()) << results.status();
    total += WorkOf(layer.attrs, Pass::Forward(), operands, *results).multiply_adds;
  }
  EXPECT_EQ(total, 714'188'480);
}

TEST(Conv2dTest, GradientsTakeAsManyMultiplyAddsAsTheForwardPass) {
  const Conv2d conv{.stride = {2, 2}, .pads = {1, 1, 1, 1}, .groups = 2};
  const TensorType x = Floats({2, 4, 9, 9}), w = Floats({6, 2, 3, 3}), y = Floats({2, 6, 5, 5});
  const auto work = [&](Pass pass, std::vector<TensorType> in, std::vector<TensorType> out) {
    return WorkOf(conv, pass, in, out).multiply_adds;
  };
  EXPECT_EQ(work(Pass::Forward(), {x, w}, {y}), 2 * 6 * 5 * 5 * 2 * 3 * 3);
  EXPECT_EQ(work(Pass::Gradient(0), {w, y}, {x}), 2 * 6 * 5 * 5 * 2 * 3 * 3);
  EXPECT_EQ(work(Pass::Gradient(1), {x, y}, {w}), 2 * 6 * 5 * 5 * 2 * 3 * 3);
}

TEST(Conv2dTest, ErrorsSayWhatDoesNotFit) {
  EXPECT_THAT(InferenceError(Conv2d{}, {Floats({1, 3, 8, 8}), Floats({4, 2, 3, 3})}),
              HasSubstr("groups"));
  EXPECT_THAT(InferenceError(Conv2d{}, {Floats({1, 3, 2, 8}), Floats({4, 3, 3, 3})}),
              HasSubstr("does not fit"));
  EXPECT_THAT(
      InferenceError(Conv2d{.stride = {0, 1}}, {Floats({1, 3, 8, 8}), Floats({4, 3, 3, 3})}),
      HasSubstr("strides"));
  EXPECT_THAT(InferenceError(Conv2d{}, {Floats({1, 3, 8, 8}), Floats({4, 3, 3, 3}), Floats({5})}),
              HasSubstr("bias"));
  EXPECT_THAT(InferenceError(Conv2d{.pads = {0, 0, int64_t{1} << 62, int64_t{1} << 62}},
                             {Floats({1, 3, 8, 8}), Floats({4, 3, 3, 3})}),
              HasSubstr("2^31"));
}

TEST(Pool2dTest, CeilAddsAWindowThatStartsInsideTheTensor) {
  const Pool2d floor{.kernel = {3, 3}, .stride = {2, 2}};
  Pool2d ceil = floor;
  ceil.ceil = true;
  EXPECT_EQ(ResultShape(floor, {Floats({1, 1, 224, 7})}), (Shape{1, 1, 111, 3}));
  EXPECT_EQ(ResultShape(ceil, {Floats({1, 1, 224, 7})}), (Shape{1, 1, 112, 3}));
}

TEST(Pool2dTest, CeilDropsAWindowThatStartsInTheTrailingPadding) {
  const Pool2d pool{.kernel = {2, 2}, .stride = {3, 3}, .pads = {1, 1, 1, 1}, .ceil = true};
  EXPECT_EQ(ResultShape(pool, {Floats({1, 1, 4, 5})}), (Shape{1, 1, 2, 2}));
  EXPECT_EQ(ResultShape(pool, {Floats({1, 1, 6, 5})}), (Shape{1, 1, 3, 2}));
}

TEST(Pool2dTest, OverhangOfCeilIsPaddingThatDoesNotCount) {
  const Pool2d pool{.function = "average",
                    .kernel = {3, 1},
                    .stride = {2, 1},
                    .pads = {1, 0, 1, 0},
                    .counted = {1, 0, 1, 0},
                    .ceil = true};
  // Windows of 6 rows: -1:2, 1:4, 3:6, 5:8; row 6 is padding, row 7 overhang.
  const Shape x = {1, 1, 6, 2};
  EXPECT_EQ(ResultShape(pool, {Floats(x)}), (Shape{1, 1, 4, 2}));
  const Pool2d last = PartOf(pool, x, 2, 1);
  EXPECT_THAT(last.pads, ElementsAre(0, 0, 2, 0));
  EXPECT_THAT(last.counted, ElementsAre(0, 0, 1, 0));
  const Pool2d first = PartOf(pool, x, 2, 0);
  EXPECT_THAT(first.pads, ElementsAre(1, 0, 0, 0));
  EXPECT_THAT(first.counted, ElementsAre(1, 0, 0, 0));
}

TEST(Pool2dTest, RowsThatNoWindowReachesAreNegativePadding) {
  const Pool2d pool{.kernel = {2, 2}, .stride = {3, 2}};
  EXPECT_THAT(PartOf(pool, {1, 1, 7, 4}, 1, 0).pads, ElementsAre(0, 0, -2, 0));
}

TEST(Pool2dTest, PadsAreLessThanTheWindow) {
  EXPECT_THAT(
      InferenceError(Pool2d{.kernel = {2, 2}, .pads = {2, 0, 0, 0}}, {Floats({1, 1, 4, 4})}),
      HasSubstr("less than the window"));
}

TEST(ReduceMeanTest, DividesByTheWholeTensorsCount) {
  const auto mean = MakeReduceMean({2, 3, 4, 5}, {-1, 2}, true);
  ASSERT_TRUE(mean.ok());
  EXPECT_THAT(mean->axes, ElementsAre(2, 3));
  EXPECT_EQ(mean->count, 20);
  EXPECT_EQ(ResultShape(*mean, {Floats({2, 3, 4, 5})}), (Shape{2, 3, 1, 1}));
  EXPECT_THAT(InferenceError(*mean, {Floats({2, 3, 4, 4})}), HasSubstr("takes 16"));
  EXPECT_FALSE(MakeReduceMean({2, 3}, {2}, true).ok());
}

}  // namespace
}  // namespace partita
