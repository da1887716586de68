#include "runtime/train/data/synthetic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "runtime/train/data/idx.h"
#include "runtime/train/data/synthetic_digits.h"
#include "tests/runtime/data/temp_folder.h"

namespace partita {
namespace {

using ::testing::HasSubstr;

struct Sample {
  std::vector<float> x;
  int32_t label = -1;
  friend bool operator==(const Sample&, const Sample&) = default;
};

Sample ReadSample(const DataSource& source, int64_t index, int64_t epoch = 0) {
  Sample sample{std::vector<float>(static_cast<size_t>(source.shape().elements()), NAN)};
  const absl::Status status = source.Read(index, epoch, sample.x, &sample.label);
  EXPECT_TRUE(status.ok()) << status;
  return sample;
}

// A linear softmax classifier after one pass of plain SGD over `train`: its accuracy on `eval`.
double LinearAccuracy(const DataSource& train, const DataSource& eval, int64_t samples,
                      float rate) {
  const size_t features = static_cast<size_t>(train.shape().elements());
  const size_t classes = static_cast<size_t>(train.classes());
  std::vector<float> weights(classes * (features + 1), 0.f);
  std::vector<float> logits(classes);
  const auto score = [&](const Sample& sample) {
    for (size_t c = 0; c < classes; ++c) {
      const float* row = &weights[c * (features + 1)];
      logits[c] = row[features];
      for (size_t f = 0; f < features; ++f) logits[c] += row[f] * sample.x[f];
    }
    return std::ranges::max_element(logits) - logits.begin();
  };
  for (int64_t i = 0; i < samples; ++i) {
    const Sample sample = ReadSample(train, i);
    const float top = logits[static_cast<size_t>(score(sample))];
    float sum = 0;
    for (float logit : logits) sum += std::exp(logit - top);
    for (size_t c = 0; c < classes; ++c) {
      const float wrong =
          std::exp(logits[c] - top) / sum - (static_cast<int32_t>(c) == sample.label);
      float* row = &weights[c * (features + 1)];
      for (size_t f = 0; f < features; ++f) row[f] -= rate * wrong * sample.x[f];
      row[features] -= rate * wrong;
    }
  }
  int right = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    const Sample sample = ReadSample(eval, i);
    right += score(sample) == sample.label;
  }
  return right / 1000.0;
}

std::unique_ptr<DataSource> Patterns(SampleShape shape, int classes, DataSplit split,
                                     uint64_t seed = 1) {
  auto source = MakeSyntheticSource(
      {.shape = std::move(shape), .classes = classes, .seed = seed, .split = split});
  EXPECT_TRUE(source.ok()) << source.status();
  return *std::move(source);
}

TEST(SyntheticTest, ALinearClassifierLearnsIt) {
  for (const SampleShape& shape : {SampleShape{{64}}, SampleShape{{1, 28, 28}},
                                   SampleShape{{3, 20, 13}}, SampleShape{{5, 7}}}) {
    const auto train = Patterns(shape, 10, DataSplit::kTrain);
    const auto eval = Patterns(shape, 10, DataSplit::kEval);
    const float rate = 1.0f / static_cast<float>(shape.elements());
    EXPECT_GT(LinearAccuracy(*train, *eval, 2000, rate), 0.97) << shape.ToString();
  }
}

TEST(SyntheticTest, SamplesHaveMeanZeroAndVarianceOne) {
  const auto source = Patterns({{3, 32, 32}}, 50, DataSplit::kTrain);
  double sum = 0, squares = 0, count = 0;
  for (int64_t i = 0; i < 200; ++i) {
    for (float v : ReadSample(*source, i).x) {
      sum += v;
      squares += v * v;
      ++count;
    }
  }
  EXPECT_NEAR(sum / count, 0, 0.1);
  EXPECT_NEAR(squares / count, 1, 0.1);
}

TEST(SyntheticTest, EachRunOfSamplesHasEveryClassOnce) {
  const auto source = Patterns({{4}}, 7, DataSplit::kTrain);
  bool rotated = false;
  for (int64_t run = 0; run < 20; ++run) {
    std::vector<int> seen(7, 0);
    for (int64_t i = 0; i < 7; ++i)
      ++seen[static_cast<size_t>(ReadSample(*source, run * 7 + i).label)];
    EXPECT_THAT(seen, ::testing::Each(1));
    rotated = rotated || ReadSample(*source, run * 7).label != 0;
  }
  EXPECT_TRUE(rotated);
}

TEST(SyntheticTest, SeedSplitAndIndexDecideAndTheEpochDoesNot) {
  const auto train = Patterns({{3, 8, 8}}, 10, DataSplit::kTrain);
  const auto again = Patterns({{3, 8, 8}}, 10, DataSplit::kTrain);
  const auto eval = Patterns({{3, 8, 8}}, 10, DataSplit::kEval);
  const auto other = Patterns({{3, 8, 8}}, 10, DataSplit::kTrain, 2);
  EXPECT_EQ(ReadSample(*train, 5), ReadSample(*again, 5, 3));
  EXPECT_NE(ReadSample(*train, 5).x, ReadSample(*eval, 5).x);
  EXPECT_NE(ReadSample(*train, 5).x, ReadSample(*other, 5).x);
  EXPECT_NE(ReadSample(*train, 5).x, ReadSample(*train, 15).x);
}

TEST(SyntheticTest, ImpossibleOptionsAreRefused) {
  EXPECT_FALSE(MakeSyntheticSource({.shape = {}}).ok());
  EXPECT_FALSE(MakeSyntheticSource({.shape = {{3, 0, 2}}}).ok());
  EXPECT_FALSE(MakeSyntheticSource({.shape = {{int64_t{1} << 40, int64_t{1} << 40}}}).ok());
  EXPECT_FALSE(MakeSyntheticSource({.shape = {{4}}, .classes = 0}).ok());
  EXPECT_FALSE(MakeSyntheticSource({.shape = {{4}}, .classes = INT32_MAX}).ok());
  EXPECT_FALSE(MakeSyntheticSource({.shape = {{1 << 20, 16, 16}}, .classes = 10}).ok());
}

TEST(SyntheticDigitsTest, TheIdxFilesHoldTheSourcesSamples) {
  const TempFolder folder;
  ASSERT_TRUE(WriteSyntheticDigitsIdx(folder.path(), 50, 20, 9).ok());
  for (const DataSplit split : {DataSplit::kTrain, DataSplit::kEval}) {
    const auto paths = FindIdxFiles(folder.path(), split);
    ASSERT_TRUE(paths.ok()) << paths.status();
    const auto idx = OpenIdxSource({.images = paths->images, .labels = paths->labels});
    ASSERT_TRUE(idx.ok()) << idx.status();
    const auto drawn = MakeSyntheticDigitsSource({.seed = 9, .split = split});
    ASSERT_TRUE(drawn.ok());
    EXPECT_EQ((*idx)->size(), split == DataSplit::kTrain ? 50 : 20);
    EXPECT_EQ((*idx)->shape(), (*drawn)->shape());
    EXPECT_EQ((*idx)->classes(), 10);
    for (int64_t i = 0; i < (*idx)->size(); ++i) {
      EXPECT_EQ(ReadSample(**idx, i), ReadSample(**drawn, i)) << i;
    }
  }
}

TEST(SyntheticDigitsTest, ALinearClassifierLearnsMostOfThem) {
  const auto train = MakeSyntheticDigitsSource({.seed = 3});
  const auto eval = MakeSyntheticDigitsSource({.seed = 3, .split = DataSplit::kEval});
  const double accuracy = LinearAccuracy(**train, **eval, 8000, 0.002f);
  EXPECT_GT(accuracy, 0.70);
  EXPECT_LT(accuracy, 0.99) << "too easy: a convolution should still have something to add";
}

TEST(SyntheticDigitsTest, DigitsAreLightStrokesOnBlack) {
  for (int64_t i = 0; i < 100; ++i) {
    DigitPixels pixels;
    const int32_t label = DrawDigit(1, DataSplit::kTrain, i, &pixels);
    EXPECT_TRUE(label >= 0 && label < 10);
    const auto light = std::ranges::count_if(pixels, [](uint8_t v) { return v > 100; });
    EXPECT_GT(light, 20) << i;
    EXPECT_LT(light, 350) << i;
  }
}

TEST(SyntheticDigitsTest, AFlatShapeIsDeliveredAndAnotherSizeRefused) {
  EXPECT_EQ((*MakeSyntheticDigitsSource({.shape = {{784}}}))->shape(), SampleShape{{784}});
  const auto wrong = MakeSyntheticDigitsSource({.shape = {{3, 32, 32}}});
  EXPECT_THAT(std::string(wrong.status().message()),
              HasSubstr("has samples of 1x28x28; 3x32x32 is wanted by the model"));
  EXPECT_FALSE(MakeSyntheticDigitsSource({.classes = 5}).ok());
  EXPECT_EQ(
      MakeSyntheticDigitsSource({.classes = 12}).status().message(),
      "synthetic_digits: 10 classes; the model has 12. Take a model with 10 outputs, or other "
      "data");
}

}  // namespace
}  // namespace partita
