#include "graph/part_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <utility>
#include <vector>

#include "graph/ops/ops.h"
#include "graph/support/check.h"

namespace partita {
namespace {

using ::testing::HasSubstr;

// An operator on operands of given shapes, split by degrees.
class Splitter {
 public:
  Splitter(OpAttrs attrs, std::vector<Shape> operands) : operands_(std::move(operands)) {
    std::vector<TensorType> types;
    for (const Shape& shape : operands_) types.push_back({DType::kFloat32, shape});
    const auto results = InferResults(attrs, types);
    CHECK(results.ok()) << results.status();
    rule_ = MakeRule(attrs, types, *results);
    for (const TensorType& type : *results) results_.push_back(type.shape);
  }

  const ShardingRule& rule() const { return rule_; }

  // Part `index` of `degree` along one loop, the others whole.
  absl::StatusOr<PartView> Part(const std::string& loop, int64_t degree, int64_t index) const {
    return View(rule_, operands_, results_, {loop, degree, index});
  }
  absl::StatusOr<PartView> GradientPart(int operand, const GradientReads& reads,
                                        const std::string& loop, int64_t degree,
                                        int64_t index) const {
    std::vector<Shape> inputs;
    for (int k : reads.operands) inputs.push_back(operands_[static_cast<size_t>(k)]);
    for (int k : reads.results) inputs.push_back(results_[static_cast<size_t>(k)]);
    inputs.insert(inputs.end(), results_.begin(), results_.end());
    const std::vector<Shape> outputs = {operands_[static_cast<size_t>(operand)]};
    return View(GradientRule(rule_, operand, reads), inputs, outputs, {loop, degree, index});
  }

 private:
  // Block `index` of `degree` of a loop.
  struct LoopBlock {
    std::string loop;
    int64_t degree, index;
  };
  static absl::StatusOr<PartView> View(const ShardingRule& rule, std::span<const Shape> operands,
                                       std::span<const Shape> results, const LoopBlock& block) {
    std::vector<Interval> blocks;
    for (const LoopDim& dim : rule.loops) {
      blocks.push_back(dim.name == block.loop ? BlockOf(dim.extent, block.degree, block.index)
                                              : Interval{0, dim.extent});
    }
    return ViewPart(rule, operands, results, blocks);
  }

  ShardingRule rule_;
  std::vector<Shape> operands_, results_;
};

TEST(PartViewTest, RowsOfAConvolutionReadAHaloAndPadAtTheTensorsEndsOnly) {
  const Splitter conv(Conv2d{.pads = {1, 1, 1, 1}}, {{2, 3, 8, 8}, {4, 3, 3, 3}});
  const PartView first = *conv.Part("oh", 2, 0), last = *conv.Part("oh", 2, 1);
  EXPECT_EQ(first.operands[0].box[2], (Interval{0, 5}));
  EXPECT_EQ(first.operands[0].pads[2], (Pads{1, 0}));
  EXPECT_EQ(last.operands[0].box[2], (Interval{3, 8}));
  EXPECT_EQ(last.operands[0].pads[2], (Pads{0, 1}));
  EXPECT_EQ(first.operands[0].pads[3], (Pads{1, 1}));
  EXPECT_EQ(first.results[0].box[2], (Interval{0, 4}));
  EXPECT_EQ(last.results[0].box[2], (Interval{4, 8}));
}

TEST(PartViewTest, UnevenRowsOfAStridedConvolution) {
  // AlexNet's first layer in small: 11x11, stride 4, pad 2, 35 -> 8 rows, in 3 parts: 2, 3, 3.
  const Splitter conv(Conv2d{.stride = {4, 4}, .pads = {2, 2, 2, 2}},
                      {{1, 1, 35, 35}, {1, 1, 11, 11}});
  EXPECT_EQ(conv.Part("oh", 3, 0)->operands[0].box[2], (Interval{0, 13}));
  EXPECT_EQ(conv.Part("oh", 3, 1)->operands[0].box[2], (Interval{6, 25}));
  EXPECT_EQ(conv.Part("oh", 3, 2)->operands[0].box[2], (Interval{18, 35}));
  EXPECT_EQ(conv.Part("oh", 3, 2)->operands[0].pads[2], (Pads{0, 2}));
}

TEST(PartViewTest, ATailThatNoWindowReachesBelongsToTheLastPart) {
  // 1x1, stride 2 on 8 columns: windows at 0, 2, 4, 6; column 7 is slack.
  const Splitter conv(Conv2d{.stride = {2, 2}}, {{1, 1, 8, 8}, {1, 1, 1, 1}});
  EXPECT_EQ(conv.Part("ow", 2, 0)->operands[0].box[3], (Interval{0, 3}));
  EXPECT_EQ(conv.Part("ow", 2, 0)->operands[0].pads[3], (Pads{0, 0}));
  EXPECT_EQ(conv.Part("ow", 2, 1)->operands[0].box[3], (Interval{4, 8}));
  EXPECT_EQ(conv.Part("ow", 2, 1)->operands[0].pads[3], (Pads{0, -1}));
  const PartView whole = *conv.Part("ow", 1, 0);
  EXPECT_EQ(whole.operands[0].box, Box::Full({1, 1, 8, 8}));
}

TEST(PartViewTest, APartThatReadsOnlyPaddingHasAnEmptyBox) {
  const Splitter conv(Conv2d{.pads = {3, 0, 0, 0}}, {{1, 1, 2, 2}, {1, 1, 1, 1}});
  const PartView part = *conv.Part("oh", 5, 1);  // row 1 of 5: above the tensor
  EXPECT_TRUE(part.operands[0].box.empty());
  EXPECT_TRUE(part.operands[0].present);
  EXPECT_EQ(part.operands[0].pads[2], (Pads{1, 0}));
  EXPECT_FALSE(part.results[0].box.empty());
}

TEST(PartViewTest, TheFirstPartOfASplitSumAddsTheBias) {
  const Splitter matmul(MatMul{}, {{4, 6}, {5, 6}, {5}});
  EXPECT_TRUE(matmul.Part("i", 2, 0)->operands[2].present);
  EXPECT_FALSE(matmul.Part("i", 2, 1)->operands[2].present);
  EXPECT_TRUE(matmul.Part("n", 2, 1)->operands[2].present);
  EXPECT_TRUE(matmul.Part("o", 2, 1)->operands[2].present);
  EXPECT_EQ(matmul.Part("i", 2, 1)->results[0].box, Box::Full({4, 5}));
  EXPECT_TRUE(matmul.GradientPart(2, {}, "i", 2, 0)->results[0].present);
  EXPECT_FALSE(matmul.GradientPart(2, {}, "i", 2, 1)->results[0].present);
}

TEST(PartViewTest, AnEmptyFirstBlockDoesNotReadTheBiasToo) {
  const Splitter matmul(MatMul{}, {{4, 6}, {5, 6}, {5}});
  const std::vector<Shape> operands = {{4, 6}, {5, 6}, {5}}, results = {{4, 5}};
  const int i = matmul.rule().FindLoop("i");
  std::vector<Interval> blocks;
  for (const LoopDim& loop : matmul.rule().loops) blocks.push_back({0, loop.extent});
  blocks[static_cast<size_t>(i)] = {0, 0};
  EXPECT_FALSE(ViewPart(matmul.rule(), operands, results, blocks)->operands[2].present);
}

TEST(PartViewTest, GroupsAndTheirChannelsAreProducts) {
  // 4 groups of 2 -> 3 channels.
  const Splitter conv(Conv2d{.groups = 4}, {{1, 8, 5, 5}, {12, 2, 1, 1}, {12}});
  const PartView second = *conv.Part("g", 2, 1);
  EXPECT_EQ(second.operands[0].box[1], (Interval{4, 8}));
  EXPECT_EQ(second.operands[1].box[0], (Interval{6, 12}));
  EXPECT_EQ(second.operands[2].box[0], (Interval{6, 12}));
  EXPECT_EQ(second.results[0].box[1], (Interval{6, 12}));
  // Channels within groups are not one interval while several groups are in a part.
  EXPECT_THAT(std::string(conv.Part("k", 3, 1).status().message()), HasSubstr("'k'"));
  EXPECT_FALSE(conv.Part("c", 2, 0).ok());
}

TEST(PartViewTest, FlattenSplitsByChannelsButNotByRowsOfSeveralChannels) {
  const Splitter flatten(Reshape{.shape = {2, -1}}, {{2, 4, 3, 3}});
  const PartView part = *flatten.Part("c", 2, 1);
  EXPECT_EQ(part.operands[0].box[1], (Interval{2, 4}));
  EXPECT_EQ(part.results[0].box[1], (Interval{18, 36}));
  EXPECT_FALSE(flatten.Part("d2", 3, 1).ok());
  const Splitter one_channel(Reshape{.shape = {2, -1}}, {{2, 1, 4, 3}});
  EXPECT_EQ(one_channel.Part("d2", 2, 1)->results[0].box[1], (Interval{6, 12}));
}

TEST(PartViewTest, GradientPartsWriteTheirHalosAsContributions) {
  const Splitter conv(Conv2d{.pads = {1, 1, 1, 1}}, {{2, 3, 8, 8}, {4, 3, 3, 3}});
  const PartView first = *conv.GradientPart(0, {.operands = {1}}, "oh", 2, 0);
  EXPECT_EQ(first.operands[1].box[2], (Interval{0, 4}));  // the gradient of the result
  EXPECT_EQ(first.results[0].box[2], (Interval{0, 5}));   // overlaps the other part's [3, 8)
  EXPECT_EQ(conv.GradientPart(0, {.operands = {1}}, "oh", 2, 1)->results[0].box[2],
            (Interval{3, 8}));
}

TEST(PartViewTest, TheWholeOperatorReadsAndWritesEverything) {
  const Splitter pool(Pool2d{.kernel = {2, 2}, .stride = {2, 2}}, {{2, 3, 7, 7}});
  const PartView whole = *pool.Part("n", 1, 0);
  EXPECT_EQ(whole.operands[0].box, Box::Full({2, 3, 7, 7}));
  EXPECT_EQ(whole.operands[0].pads[2], (Pads{0, -1}));
  EXPECT_EQ(whole.results[0].box, Box::Full({2, 3, 3, 3}));
}

// Views of parts one after the other, in any order, against each by itself; some do not fit.
TEST(PartViewsTest, AreThoseOfEachPartByItself) {
  const Splitter conv(Conv2d{.stride = {2, 2}, .pads = {2, 1, 0, 3}},
                      {{4, 3, 9, 10}, {6, 3, 3, 3}});
  const std::vector<Shape> of_conv = {{4, 3, 9, 10}, {6, 3, 3, 3}}, rows = {{4, 6, 5, 6}};
  const Splitter matmul(MatMul{}, {{4, 6}, {5, 6}, {5}});
  const std::vector<Shape> of_matmul = {{4, 6}, {5, 6}, {5}}, products = {{4, 5}};
  ShardingRule flat;
  flat.loops = {{"n", 3}, {"c", 4}, {"h", 5}};
  flat.operands = {{.dims = {Along(0), Product({1, 2}), Fixed(0, 2)}}};
  flat.results = {{.dims = {Product({0, 1, 2})}}};
  const ShardingRule finished = std::move(flat).Finished();
  const std::vector<Shape> of_flat = {{3, 20, 2}}, flattened = {{60}};
  struct Case {
    const ShardingRule& rule;
    const std::vector<Shape>&operands, &results;
  };
  std::mt19937_64 random(3);
  int fit = 0, misfit = 0;
  for (const Case& one :
       {Case{conv.rule(), of_conv, rows}, Case{matmul.rule(), of_matmul, products},
        Case{finished, of_flat, flattened}}) {
    PartViews views(one.rule, one.operands, one.results);
    std::vector<Interval> blocks;
    for (const LoopDim& loop : one.rule.loops) blocks.push_back({0, loop.extent});
    for (int trial = 0; trial < 500; ++trial) {
      const size_t loop = random() % blocks.size();
      const int64_t extent = one.rule.loops[loop].extent;
      const auto degree = static_cast<int64_t>(1 + random() % static_cast<uint64_t>(extent));
      blocks[loop] =
          BlockOf(extent, degree, static_cast<int64_t>(random() % static_cast<uint64_t>(degree)));
      const auto wanted = ViewPart(one.rule, one.operands, one.results, blocks);
      ASSERT_EQ(views.Find(blocks).code(), wanted.status().code());
      ++(wanted.ok() ? fit : misfit);
      if (!wanted.ok()) continue;
      const PartView& view = views.view();
      EXPECT_EQ(view.blocks, wanted->blocks);
      const auto expect_equal = [](const TensorView& a, const TensorView& b) {
        EXPECT_EQ(a.present, b.present);
        EXPECT_EQ(a.box, b.box);
        EXPECT_EQ(a.pads, b.pads);
      };
      for (size_t k = 0; k < one.operands.size(); ++k) {
        expect_equal(view.operands[k], wanted->operands[k]);
      }
      for (size_t k = 0; k < one.results.size(); ++k) {
        expect_equal(view.results[k], wanted->results[k]);
      }
    }
  }
  EXPECT_GE(fit, 1000);
  EXPECT_GE(misfit, 50);
}

}  // namespace
}  // namespace partita
