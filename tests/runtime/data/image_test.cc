#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "runtime/train/data/image_ops.h"
#include "runtime/train/data/jpeg.h"
#include "tests/runtime/data/jpeg_file.h"

namespace partita {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<Image> Decode(const std::string& jpeg, const DecodeOptions& options = {}) {
  return DecodeJpeg(std::as_bytes(std::span(jpeg)), options, "some.jpg");
}

TEST(JpegTest, AColourPictureComesBackNearly) {
  const auto image =
      Decode(MakeJpeg(32, 16, 200), {.channels = 3, .min_width = 32, .min_height = 16});
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->width, 32);
  EXPECT_EQ(image->height, 16);
  const uint8_t* pixel = &image->pixels[(8 * 32 + 16) * 3];
  EXPECT_NEAR(pixel[0], 127, 6);
  EXPECT_NEAR(pixel[1], 127, 6);
  EXPECT_NEAR(pixel[2], 200, 6);
}

TEST(JpegTest, AGreyPictureHasOneChannel) {
  const auto image =
      Decode(MakeJpeg(32, 16, 200), {.channels = 1, .min_width = 32, .min_height = 16});
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->pixels.size(), 32u * 16);
  EXPECT_NEAR(image->pixels[8 * 32 + 16], 0.886 * 127 + 0.114 * 200, 6);
}

TEST(JpegTest, ALargePictureIsShrunkInTheDecoderButNotTooFar) {
  const std::string jpeg = MakeJpeg(160, 80, 0);
  EXPECT_EQ(Decode(jpeg, {.channels = 3, .min_width = 21, .min_height = 10})->width, 40);
  EXPECT_EQ(Decode(jpeg, {.channels = 3, .min_width = 20, .min_height = 10})->width, 20);
  EXPECT_EQ(Decode(jpeg, {.channels = 3, .min_width = 500, .min_height = 10})->width, 160);
  EXPECT_EQ(Decode(jpeg, {.channels = 3, .min_width = 1, .min_height = 1})->height, 10);
}

TEST(JpegTest, ACutOffPictureIsBroken) {
  const std::string jpeg = MakeJpeg(64, 64, 9);
  for (const size_t size : {jpeg.size() / 2, jpeg.size() - 30, size_t{100}, size_t{2}, size_t{0}}) {
    const auto image = Decode(jpeg.substr(0, size));
    EXPECT_EQ(image.status().code(), absl::StatusCode::kDataLoss) << size;
    EXPECT_THAT(std::string(image.status().message()), HasSubstr("'some.jpg' is a broken JPEG"));
  }
}

TEST(JpegTest, AHugePictureIsRefusedByItsHeader) {
  std::string jpeg = MakeJpeg(16, 16, 0);
  const size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, "\xfd\xe8\xfd\xe8");
  EXPECT_THAT(std::string(Decode(jpeg).status().message()), HasSubstr("65000 x 65000 pixels"));
}

Image RandomImage(int64_t width, int64_t height, int64_t channels) {
  std::mt19937 random(static_cast<uint32_t>(width * 100 + height));
  Image image{width, height, channels, {}};
  for (int64_t i = 0; i < width * height * channels; ++i) {
    image.pixels.push_back(static_cast<uint8_t>(random()));
  }
  return image;
}

TEST(ResizeTest, TheSameSizeIsTheSameImage) {
  const Image image = RandomImage(7, 5, 3);
  EXPECT_EQ(Resize(image, 7, 5).pixels, image.pixels);
}

TEST(ResizeTest, AConstantStaysConstantAtEverySize) {
  const Image image{9, 6, 3, std::vector<uint8_t>(9 * 6 * 3, 131)};
  for (const auto& [w, h] :
       {std::pair(3, 2), std::pair(20, 30), std::pair(1, 1), std::pair(9, 7)}) {
    const Image resized = Resize(image, w, h);
    EXPECT_EQ(static_cast<int>(resized.pixels.size()), w * h * 3);
    EXPECT_THAT(resized.pixels, Each(131));
  }
}

TEST(ResizeTest, ShrinkingUsesEveryPixelWithATriangle) {
  // Step 2: the weights around each new centre are 1:3:3:1, cut off at the border.
  const Image row{4, 1, 1, {0, 80, 160, 240}};
  EXPECT_THAT(Resize(row, 2, 1).pixels, ElementsAre(57, 183));
}

TEST(ResizeTest, GrowingInterpolatesBetweenCentres) {
  const Image row{2, 1, 1, {0, 100}};
  EXPECT_THAT(Resize(row, 4, 1).pixels, ElementsAre(0, 25, 75, 100));
}

TEST(ResizeTest, TransposingCommutes) {
  const Image image = RandomImage(12, 9, 1);
  Image turned{9, 12, 1, std::vector<uint8_t>(108)};
  for (size_t y = 0; y < 9; ++y) {
    for (size_t x = 0; x < 12; ++x) turned.pixels[x * 9 + y] = image.pixels[y * 12 + x];
  }
  const Image a = Resize(image, 5, 20), b = Resize(turned, 20, 5);
  for (size_t y = 0; y < 20; ++y) {
    for (size_t x = 0; x < 5; ++x) EXPECT_NEAR(a.pixels[y * 5 + x], b.pixels[x * 20 + y], 1);
  }
}

TEST(CropTest, ChannelsComeApartAndTheMirrorSwapsSides) {
  const auto normaliser = PixelNormaliser::Create(2, {{0.f, 1.f}, {1.f / 255, 1.f / 255}}, "test");
  ASSERT_TRUE(normaliser.ok());
  const Image image{3, 2, 2, {0, 10, 1, 11, 2, 12, 3, 13, 4, 14, 5, 15}};
  std::vector<float> x(4);
  CropAndNormalise(image, {.left = 1, .top = 1, .width = 2, .height = 1}, *normaliser, x);
  for (float& v : x) v = std::round(v);
  EXPECT_THAT(x, ElementsAre(4, 5, 14 - 255, 15 - 255));
  CropAndNormalise(image, {.left = 1, .top = 1, .width = 2, .height = 1, .mirrored = true},
                   *normaliser, x);
  for (float& v : x) v = std::round(v);
  EXPECT_THAT(x, ElementsAre(5, 4, 15 - 255, 14 - 255));
}

}  // namespace
}  // namespace partita
