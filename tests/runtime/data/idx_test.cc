#include "runtime/train/data/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/data/temp_folder.h"

namespace partita {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// Two images of 2 x 3 pixels with the labels 4 and 1, under MNIST's names.
void WriteTwoImages(const TempFolder& folder) {
  const int64_t dims[] = {2, 2, 3};
  const uint8_t pixels[] = {0, 255, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100};
  const uint8_t labels[] = {4, 1};
  ASSERT_TRUE(WriteIdx(folder / "train-images-idx3-ubyte", dims, pixels).ok());
  ASSERT_TRUE(WriteIdx(folder / "train-labels-idx1-ubyte", {dims, 1}, labels).ok());
}

IdxOptions Paths(const TempFolder& folder) {
  return {.images = folder / "train-images-idx3-ubyte",
          .labels = folder / "train-labels-idx1-ubyte"};
}

TEST(IdxTest, TheBytesAreThoseOfTheFormat) {
  const TempFolder folder;
  WriteTwoImages(folder);
  EXPECT_EQ(FileContent(folder / "train-labels-idx1-ubyte"),
            std::string("\0\0\x08\x01\0\0\0\x02\x04\x01", 10));
  EXPECT_EQ(FileContent(folder / "train-images-idx3-ubyte").substr(0, 16),
            std::string("\0\0\x08\x03\0\0\0\x02\0\0\0\x02\0\0\0\x03", 16));
}

TEST(IdxTest, PixelsAreNormalisedByMnistsStatistics) {
  const TempFolder folder;
  WriteTwoImages(folder);
  const auto source = OpenIdxSource(Paths(folder));
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->size(), 2);
  EXPECT_EQ((*source)->classes(), 5);
  EXPECT_EQ((*source)->shape().ToString(), "1x2x3");
  std::vector<float> x(6);
  int32_t label = -1;
  ASSERT_TRUE((*source)->Read(0, 0, x, &label).ok());
  EXPECT_EQ(label, 4);
  EXPECT_FLOAT_EQ(x[0], -0.1307f / 0.3081f);
  EXPECT_FLOAT_EQ(x[1], (1 - 0.1307f) / 0.3081f);
  EXPECT_FLOAT_EQ(x[2], (10 / 255.f - 0.1307f) / 0.3081f);
}

TEST(IdxTest, StatisticsShapeAndClassesCanBeGiven) {
  const TempFolder folder;
  WriteTwoImages(folder);
  IdxOptions options = Paths(folder);
  options.statistics = {{0.f}, {1.f}};
  options.shape = {{6}};
  options.classes = 10;
  const auto source = OpenIdxSource(options);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->classes(), 10);
  EXPECT_EQ((*source)->labelled_classes(), 5);
  EXPECT_EQ(NoteOnClasses(**source),
            absl::StrCat("IDX images '", options.images,
                         "': 2 samples of 6, 10 classes: the largest label is 4; the model has 10 "
                         "classes, and no sample is of the last 5. If the data have no more "
                         "classes, take a model with 5 outputs"));
  std::vector<float> x(6);
  int32_t label = -1;
  ASSERT_TRUE((*source)->Read(1, 0, x, &label).ok());
  EXPECT_THAT(x,
              ElementsAre(50 / 255.f, 60 / 255.f, 70 / 255.f, 80 / 255.f, 90 / 255.f, 100 / 255.f));

  options.classes = 4;
  EXPECT_THAT(
      std::string(OpenIdxSource(options).status().message()),
      HasSubstr("train-labels-idx1-ubyte': sample 0 has the label 4; the model has 4 classes, "
                "labels 0 to 3. Take a model with 5 outputs"));
  options.classes = 0;
  options.shape = {{1, 28, 28}};
  EXPECT_THAT(std::string(OpenIdxSource(options).status().message()),
              HasSubstr("1x28x28 is wanted"));
  options.shape = {};
  options.statistics = {{0.f}, {0.f}};
  EXPECT_FALSE(OpenIdxSource(options).ok());
  options.statistics = {{0.f, 0.f}, {1.f}};
  EXPECT_FALSE(OpenIdxSource(options).ok());
}

TEST(IdxTest, ColourImagesKeepTheirChannels) {
  const TempFolder folder;
  const int64_t dims[] = {1, 3, 1, 1};
  const uint8_t pixels[] = {255, 0, 255};
  const uint8_t labels[] = {0};
  ASSERT_TRUE(WriteIdx(folder / "c-images-idx4-ubyte", dims, pixels).ok());
  ASSERT_TRUE(WriteIdx(folder / "c-labels-idx1-ubyte", {dims, 1}, labels).ok());
  const auto paths = FindIdxFiles(folder / "c-images-idx4-ubyte", DataSplit::kTrain);
  ASSERT_TRUE(paths.ok());
  const auto source = OpenIdxSource({.images = paths->images, .labels = paths->labels});
  ASSERT_TRUE(source.ok()) << source.status();
  std::vector<float> x(3);
  int32_t label = -1;
  ASSERT_TRUE((*source)->Read(0, 0, x, &label).ok());
  EXPECT_FLOAT_EQ(x[0], (1 - 0.485f) / 0.229f);
  EXPECT_FLOAT_EQ(x[1], -0.456f / 0.224f);
}

TEST(IdxTest, FilesAreFoundByMnistsNames) {
  const TempFolder folder;
  EXPECT_EQ(FindIdxFiles(folder.path(), DataSplit::kTrain).status().code(),
            absl::StatusCode::kNotFound);
  folder.Write("t10k-images.idx3-ubyte", "");
  EXPECT_EQ(FindIdxFiles(folder.path(), DataSplit::kEval)->labels,
            folder / "t10k-labels.idx1-ubyte");
  EXPECT_EQ(FindIdxFiles("/data/x-images-idx3-ubyte", DataSplit::kEval)->labels,
            "/data/x-labels-idx1-ubyte");
  EXPECT_FALSE(FindIdxFiles("/data/x-ubyte", DataSplit::kTrain).ok());
}

TEST(IdxTest, FilesThatDoNotFitAreNamed) {
  const TempFolder folder;
  WriteTwoImages(folder);
  IdxOptions options = Paths(folder);
  std::swap(options.images, options.labels);
  EXPECT_THAT(std::string(OpenIdxSource(options).status().message()),
              HasSubstr("has 1 dimensions"));
  const int64_t three[] = {3};
  const uint8_t labels[] = {1, 2, 3};
  ASSERT_TRUE(WriteIdx(folder / "train-labels-idx1-ubyte", three, labels).ok());
  EXPECT_THAT(std::string(OpenIdxSource(Paths(folder)).status().message()),
              HasSubstr("has 2 images"));
  const int64_t none[] = {0, 2, 3};
  ASSERT_TRUE(WriteIdx(folder / "train-images-idx3-ubyte", none, {}).ok());
  ASSERT_TRUE(WriteIdx(folder / "train-labels-idx1-ubyte", {none, 1}, {}).ok());
  EXPECT_THAT(std::string(OpenIdxSource(Paths(folder)).status().message()), HasSubstr("no images"));
  folder.Write("train-images-idx3-ubyte", "\x1f\x8b\x08\x08more");
  EXPECT_THAT(std::string(OpenIdxSource(Paths(folder)).status().message()), HasSubstr("gunzip"));
  EXPECT_EQ(OpenIdxSource({.images = "/no", .labels = "/no"}).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(IdxTest, EveryTruncationIsRefused) {
  const TempFolder folder;
  WriteTwoImages(folder);
  const std::string good = FileContent(folder / "train-images-idx3-ubyte");
  ASSERT_TRUE(ParseIdx(BytesOf(good), "f").ok());
  for (size_t size = 0; size < good.size(); ++size) {
    const std::string cut = good.substr(0, size);
    const auto header = ParseIdx(BytesOf(cut), "some.file");
    EXPECT_EQ(header.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(header.status().message()), HasSubstr("'some.file'"));
  }
}

TEST(IdxTest, HugeDimensionsOverflowNothing) {
  std::string bytes("\0\0\x08\x08", 4);
  bytes.append(32, '\xff');
  EXPECT_THAT(std::string(ParseIdx(BytesOf(bytes), "f").status().message()), HasSubstr("2^63"));
}

// Many pages of images, so that some are gone as a whole.
TEST(IdxTest, AFileThatIsCutOffDuringARunIsNamed) {
  const TempFolder folder;
  constexpr int64_t kSamples = 20'000;
  const int64_t dims[] = {kSamples, 2, 3};
  const std::vector<uint8_t> pixels(kSamples * 6, 200), labels(kSamples, 1);
  for (const char* cut : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"}) {
    ASSERT_TRUE(WriteIdx(folder / "train-images-idx3-ubyte", dims, pixels).ok());
    ASSERT_TRUE(WriteIdx(folder / "train-labels-idx1-ubyte", {dims, 1}, labels).ok());
    const auto source = OpenIdxSource(Paths(folder));
    ASSERT_TRUE(source.ok()) << source.status();
    std::vector<float> x(6);
    int32_t label = 0;
    ASSERT_TRUE((*source)->Read(kSamples - 1, 0, x, &label).ok());
    EXPECT_EQ(label, 1);
    for (const uintmax_t left : {uintmax_t{15'000}, uintmax_t{100}, uintmax_t{0}}) {
      std::filesystem::resize_file(folder / cut, left);
      for (const int64_t index : {kSamples - 1, kSamples / 2, int64_t{0}}) {
        const absl::Status status = (*source)->Read(index, 0, x, &label);
        EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
        EXPECT_THAT(std::string(status.message()), HasSubstr(folder / cut));
      }
    }
  }
}

}  // namespace
}  // namespace partita
