#include "runtime/train/data/open_data_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/train/data/safetensors.h"
#include "runtime/train/data/synthetic_digits.h"
#include "tests/runtime/data/jpeg_file.h"
#include "tests/runtime/data/temp_folder.h"

namespace partita {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string MessageOf(const DataOptions& options) {
  return std::string(OpenDataSource(options).status().message());
}

TEST(OpenDataSourceTest, SyntheticTakesTheModelsShapeAndClasses) {
  const auto source =
      OpenDataSource({.spec = "synthetic:40", .shape = {{3, 56, 56}}, .classes = 200});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->size(), 40);
  EXPECT_EQ((*source)->classes(), 200);
  EXPECT_EQ((*source)->Describe(),
            "synthetic patterns, seed 0: 40 samples of 3x56x56, 200 classes");
  EXPECT_EQ((*OpenDataSource({.spec = "synthetic", .split = DataSplit::kEval}))->size(), 10'240);
  EXPECT_EQ((*OpenDataSource({.spec = "synthetic_digits"}))->size(), 60'000);
  EXPECT_THAT(MessageOf({.spec = "synthetic:0"}), HasSubstr("behind the colon"));
  EXPECT_THAT(MessageOf({.spec = "synthetic_digits:many"}), HasSubstr("behind the colon"));
}

TEST(OpenDataSourceTest, KeptSamplesAreTheSameSamples) {
  const DataOptions plain{.spec = "synthetic:8", .shape = {{5}}, .classes = 3};
  DataOptions kept = plain;
  kept.cache = DataCache::kMemory;
  const auto a = OpenDataSource(plain), b = OpenDataSource(kept);
  ASSERT_TRUE(a.ok() && b.ok());
  for (int round = 0; round < 2; ++round) {
    for (int64_t i = 0; i < 8; ++i) {
      std::vector<float> x(5), y(5);
      int32_t label = -1, other = -2;
      ASSERT_TRUE((*a)->Read(i, 0, x, &label).ok());
      ASSERT_TRUE((*b)->Read(i, 0, y, &other).ok());
      EXPECT_EQ(x, y);
      EXPECT_EQ(label, other);
    }
  }
}

TEST(OpenDataSourceTest, PathsOpenByWhatIsThere) {
  const TempFolder folder;
  ASSERT_TRUE(WriteSyntheticDigitsIdx(folder.path(), 30, 10, 1).ok());
  EXPECT_THAT((*OpenDataSource({.spec = folder.path()}))->Describe(), HasSubstr("IDX images"));
  EXPECT_EQ((*OpenDataSource({.spec = folder.path() + "/", .split = DataSplit::kEval}))->size(),
            10);
  EXPECT_EQ((*OpenDataSource({.spec = folder / "train-images-idx3-ubyte"}))->size(), 30);
  const TempFolder images;
  images.Write("train/a/1.jpg", MakeJpeg(8, 8, 8));
  EXPECT_THAT((*OpenDataSource({.spec = images.path()}))->Describe(), HasSubstr("images of"));
}

TEST(OpenDataSourceTest, WhatIsNoDataListsTheForms) {
  const TempFolder folder;
  EXPECT_EQ(OpenDataSource({.spec = "sinthetic"}).status().code(), absl::StatusCode::kNotFound);
  for (const char* form :
       {"synthetic[:SAMPLES]", "synthetic_digits", "FILE.safetensors", "IDX", "JPEG"}) {
    EXPECT_THAT(MessageOf({.spec = "sinthetic"}), HasSubstr(form));
    EXPECT_THAT(MessageOf({.spec = folder.path()}), HasSubstr(form));
  }
  folder.Write("train-images-idx3-ubyte.gz", "");
  EXPECT_THAT(MessageOf({.spec = folder.path()}), HasSubstr("unpack it with gunzip"));
  EXPECT_EQ(OpenDataSource({.spec = folder / "no.safetensors"}).status().code(),
            absl::StatusCode::kNotFound);
}

class SafetensorsDataTest : public ::testing::Test {
 protected:
  template <class T>
  struct Values {
    std::vector<int64_t> shape;
    std::vector<T> values;
  };
  template <class X, class Y>
  absl::StatusOr<std::unique_ptr<DataSource>> Open(const Values<X>& x, const Values<Y>& y,
                                                   SampleShape shape = {}, int classes = 0) {
    const TensorToWrite tensors[] = {MakeTensorToWrite<X>("x", x.shape, x.values),
                                     MakeTensorToWrite<Y>("y", y.shape, y.values)};
    EXPECT_TRUE(WriteSafetensors(folder_ / "d.safetensors", tensors).ok());
    return OpenDataSource(
        {.spec = folder_ / "d.safetensors", .shape = std::move(shape), .classes = classes});
  }

  TempFolder folder_;
};

TEST_F(SafetensorsDataTest, SamplesAreRowsOfX) {
  const auto source = Open<float, int64_t>({{3, 2}, {1, 2, 3, 4, 5, 6}}, {{3}, {7, 0, 2}});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->size(), 3);
  EXPECT_EQ((*source)->classes(), 8);
  std::vector<float> x(2);
  int32_t label = -1;
  ASSERT_TRUE((*source)->Read(2, 0, x, &label).ok());
  EXPECT_THAT(x, ElementsAre(5, 6));
  EXPECT_EQ(label, 2);
}

TEST_F(SafetensorsDataTest, StepsAndBatchesAreFlattenedInOrder) {
  const auto source =
      Open<uint8_t, int32_t>({{2, 3, 1, 1, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
                             {{2, 3}, {0, 1, 2, 3, 4, 5}}, {{1, 1, 2}}, 6);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->size(), 6);
  std::vector<float> x(2);
  int32_t label = -1;
  ASSERT_TRUE((*source)->Read(4, 0, x, &label).ok());
  EXPECT_THAT(x, ElementsAre(8, 9));
  EXPECT_EQ(label, 4);
}

TEST_F(SafetensorsDataTest, LabelsThatLeaveClassesOutAreNoted) {
  for (const int classes : {3, 9}) {
    const DataOptions kept{.spec = folder_ / "d.safetensors", .classes = classes};
    ASSERT_TRUE((Open<float, int64_t>({{3, 1}, {1, 2, 3}}, {{3}, {0, 2, 1}}, {}, classes)).ok());
    const auto source = OpenDataSource(kept);
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_EQ((*source)->classes(), classes);
    EXPECT_EQ((*source)->labelled_classes(), 3);
    if (classes == 3) {
      EXPECT_EQ(NoteOnClasses(**source), "");
    } else {
      EXPECT_THAT(NoteOnClasses(**source), HasSubstr("no sample is of the last 6"));
    }
  }
}

TEST_F(SafetensorsDataTest, SamplesOfHalvesWithLabelsOfSixteenBits) {
  const std::vector<uint16_t> x = {0x3c00, 0xc000, 0x0001, 0x7bff}, y = {0, 2};
  const TensorToWrite tensors[] = {{"x", "F16", {2, 2}, std::as_bytes(std::span(x))},
                                   {"y", "I16", {2}, std::as_bytes(std::span(y))}};
  ASSERT_TRUE(WriteSafetensors(folder_ / "d.safetensors", tensors).ok());
  const auto source = OpenDataSource({.spec = folder_ / "d.safetensors"});
  ASSERT_TRUE(source.ok()) << source.status();
  std::vector<float> sample(2);
  int32_t label = -1;
  ASSERT_TRUE((*source)->Read(1, 0, sample, &label).ok());
  EXPECT_THAT(sample, ElementsAre(0x1p-24f, 65504));
  EXPECT_EQ(label, 2);
}

TEST_F(SafetensorsDataTest, TensorsThatDoNotFitAreRefused) {
  const auto code = [](const auto& source) { return source.status().code(); };
  constexpr auto kBad = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(code(Open<float, int64_t>({{3, 2}, {1, 2, 3, 4, 5, 6}}, {{2}, {0, 1}})), kBad);
  EXPECT_EQ(code(Open<float, int64_t>({{2}, {1, 2}}, {{2}, {0, 1}})), kBad);
  EXPECT_EQ(code(Open<float, int64_t>({{2, 1}, {1, 2}}, {{2}, {0, -1}})), kBad);
  EXPECT_EQ(code(Open<float, int64_t>({{2, 1}, {1, 2}}, {{2}, {0, int64_t{1} << 40}})), kBad);
  EXPECT_EQ(code(Open<float, float>({{2, 1}, {1, 2}}, {{2}, {0, 1}})), kBad);
  EXPECT_EQ(code(Open<float, int64_t>({{0, 1}, {}}, {{0}, {}})), kBad);
  EXPECT_EQ(code(Open<float, int64_t>({{2, 0}, {}}, {{2}, {0, 1}})), kBad);
  EXPECT_EQ(code(Open<float, int64_t>({{2, 1}, {1, 2}}, {{2}, {0, 1}}, {{3}})), kBad);
  EXPECT_EQ(code(Open<float, int64_t>({{2, 1}, {1, 2}}, {{2}, {0, 5}}, {}, 5)), kBad);
  EXPECT_THAT(
      std::string(
          Open<float, int64_t>({{3, 1}, {1, 2, 3}}, {{3}, {0, 7, 7}}, {}, 5).status().message()),
      HasSubstr("tensor 'y': sample 1 has the label 7; the model has 5 classes, labels 0 to 4"));
  EXPECT_THAT(
      std::string(
          Open<float, int32_t>({{3, 1}, {1, 2, 3}}, {{3}, {0, 7, -2}}, {}, 5).status().message()),
      HasSubstr("tensor 'y': sample 2 has the label -2"));
  const std::vector<float> x = {1};
  const TensorToWrite only_x[] = {MakeTensorToWrite<float>("x", {1, 1}, x)};
  ASSERT_TRUE(WriteSafetensors(folder_ / "d.safetensors", only_x).ok());
  EXPECT_THAT(MessageOf({.spec = folder_ / "d.safetensors"}), HasSubstr("has no tensor 'y'"));
}

}  // namespace
}  // namespace partita
