#include "runtime/train/data/png.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/runtime/data/jpeg_file.h"
#include "tests/runtime/data/png_file.h"
#include "tests/testing/mutation.h"

namespace partita {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<Image> DecodePicture(const std::string& bytes, int64_t channels = 3) {
  return DecodeImage(std::as_bytes(std::span(bytes)), {.channels = channels}, "some.png");
}

std::string PictureError(const std::string& bytes) {
  const auto image = DecodePicture(bytes);
  EXPECT_EQ(image.status().code(), absl::StatusCode::kDataLoss);
  return std::string(image.status().message());
}

// Numbers without any pattern that a wrong stride would not disturb.
int Pattern(int x, int y, int channel) { return (x * 2749 + y * 8123 + channel * 20011) & 0xffff; }

// What a form says of a pixel, red, green and blue, by the PNG specification.
std::array<int, 3> ColourAt(const PngForm& form, int x, int y) {
  const int most = (1 << form.depth) - 1;
  const auto value = [&](int channel) { return Pattern(x, y, channel) & most; };
  if (form.colour_type == PNG_COLOR_TYPE_PALETTE) {
    const auto colour = PaletteColour(value(0));
    return {colour[0], colour[1], colour[2]};
  }
  const auto byte = [&](int channel) { return (value(channel) * 255 * 2 + most) / (2 * most); };
  if (ChannelsOf(form) < 3) return {byte(0), byte(0), byte(0)};
  return {byte(0), byte(1), byte(2)};
}

std::vector<PngForm> AllForms() {
  const std::pair<int, std::vector<int>> depths[] = {{PNG_COLOR_TYPE_GRAY, {1, 2, 4, 8, 16}},
                                                     {PNG_COLOR_TYPE_GRAY_ALPHA, {8, 16}},
                                                     {PNG_COLOR_TYPE_PALETTE, {1, 2, 4, 8}},
                                                     {PNG_COLOR_TYPE_RGB, {8, 16}},
                                                     {PNG_COLOR_TYPE_RGB_ALPHA, {8, 16}}};
  std::vector<PngForm> forms;
  for (const auto& [type, of_type] : depths) {
    for (int depth : of_type) {
      forms.push_back({type, depth, false});
      forms.push_back({type, depth, true});
    }
  }
  return forms;
}

TEST(PngTest, EveryFormBecomesEightBitColour) {
  for (const PngForm& form : AllForms()) {
    SCOPED_TRACE(absl::StrCat("type ", form.colour_type, " depth ", form.depth, " interlaced ",
                              form.interlaced));
    const auto image = DecodePicture(MakePng(13, 11, form, Pattern));
    ASSERT_TRUE(image.ok()) << image.status();
    ASSERT_EQ(image->width, 13);
    ASSERT_EQ(image->height, 11);
    ASSERT_EQ(image->pixels.size(), 13u * 11 * 3);
    for (int y = 0; y < 11; ++y) {
      for (int x = 0; x < 13; ++x) {
        const auto wanted = ColourAt(form, x, y);
        for (int c = 0; c < 3; ++c) {
          ASSERT_EQ(image->pixels[static_cast<size_t>((y * 13 + x) * 3 + c)], wanted[c])
              << x << ", " << y << ", " << c;
        }
      }
    }
  }
}

TEST(PngTest, EveryFormBecomesEightBitGrey) {
  for (const PngForm& form : AllForms()) {
    SCOPED_TRACE(absl::StrCat("type ", form.colour_type, " depth ", form.depth));
    const auto image = DecodePicture(MakePng(9, 5, form, Pattern), 1);
    ASSERT_TRUE(image.ok()) << image.status();
    ASSERT_EQ(image->channels, 1);
    ASSERT_EQ(image->pixels.size(), 9u * 5);
    for (int i = 0; i < 45; ++i) {
      const auto [red, green, blue] = ColourAt(form, i % 9, i / 9);
      ASSERT_NEAR(image->pixels[static_cast<size_t>(i)], 0.299 * red + 0.587 * green + 0.114 * blue,
                  0.5001);
    }
  }
}

TEST(PngTest, TheFirstBytesSayWhatAFileIs) {
  EXPECT_EQ(DecodePicture(MakePng(6, 4, 9))->pixels[2], 9);
  EXPECT_NEAR(DecodePicture(MakeJpeg(6, 4, 200))->pixels[2], 200, 8);
  EXPECT_EQ(PictureError("GIF89a..."),
            "'some.png' is neither JPEG nor PNG: it begins with the bytes 4749463839612e2e");
  EXPECT_EQ(PictureError(""), "'some.png' is neither JPEG nor PNG: it is empty");
}

TEST(PngTest, ACutOffPictureIsBrokenWhereverItEnds) {
  for (const bool interlaced : {false, true}) {
    const std::string png = MakePng(20, 20, {PNG_COLOR_TYPE_RGB, 8, interlaced}, Pattern);
    for (size_t size = 8; size < png.size(); ++size) {
      EXPECT_THAT(PictureError(png.substr(0, size)), HasSubstr("'some.png' is a broken PNG: "));
    }
  }
}

// Writes a number as PNG has them, four bytes big endian.
std::string PngNumber(uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift);
  return bytes;
}

// With the checksum that a chunk has.
std::string PngChunk(const std::string& type, const std::string& content) {
  uint32_t checksum = 0xffffffffu;
  for (char c : type + content) {
    checksum ^= static_cast<uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) checksum = checksum >> 1 ^ (checksum & 1 ? 0xedb88320u : 0);
  }
  return PngNumber(static_cast<uint32_t>(content.size())) + type + content + PngNumber(~checksum);
}

// A file of 8-bit colour whose header says that size.
std::string PngOfSize(uint32_t width, uint32_t height, size_t data_bytes) {
  return "\x89PNG\r\n\x1a\n" +
         PngChunk("IHDR", PngNumber(width) + PngNumber(height) + std::string("\x08\x02\0\0\0", 5)) +
         PngChunk("IDAT", std::string(data_bytes, 'x')) + PngChunk("IEND", "");
}

TEST(PngTest, HugePicturesAreRefusedByTheirHeader) {
  EXPECT_THAT(PictureError(PngOfSize(65000, 65000, 10)),
              HasSubstr("65000 x 65000 pixels; at most 67108864 are read"));
  EXPECT_THAT(PictureError(PngOfSize(0x7fffffff, 1, 10)), HasSubstr("2147483647 x 1 pixels"));
  EXPECT_THAT(PictureError(PngOfSize(0xffffffff, 1, 10)), HasSubstr("is a broken PNG"));
  EXPECT_THAT(PictureError(PngOfSize(0, 5, 10)), HasSubstr("is a broken PNG"));
}

TEST(PngTest, NoMemoryIsTakenForPixelsThatTheFileCannotHold) {
  EXPECT_THAT(PictureError(PngOfSize(8192, 8192, 1000)),
              HasSubstr("bytes cannot hold its 8192 x 8192 pixels: it is cut off"));
}

TEST(PngTest, ChunksThatSayNothingOfThePixelsArePassedOver) {
  std::string png = MakePng(6, 4, 9);
  // After the signature and the IHDR: a text that would unpack to more than its bytes, and a
  // chunk of nobody's.
  png.insert(8 + 25,
             PngChunk("zTXt", std::string("Title\0\0x\x9c\x03", 10)) + PngChunk("prVt", "what"));
  const auto image = DecodePicture(png);
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->pixels, DecodePicture(MakePng(6, 4, 9))->pixels);
  png.insert(8 + 25, PngChunk("WHAT", "has to be known"));
  EXPECT_THAT(PictureError(png), HasSubstr("is a broken PNG"));
}

TEST(PngTest, MutatedPicturesAreDecodedOrRefused) {
  Mutator mutator(3);
  int decoded = 0, refused = 0;
  const std::string other = MakeJpeg(10, 10, 3);
  for (const PngForm& form : AllForms()) {
    const std::string good = MakePng(24, 24, form, Pattern);
    for (int i = 0; i < 100; ++i) {
      const std::string png = mutator.MutateBytes(good, other);
      const auto image = DecodePicture(png);
      (image.ok() ? decoded : refused) += 1;
      if (image.ok()) {
        EXPECT_EQ(static_cast<int64_t>(image->pixels.size()), image->width * image->height * 3);
      } else {
        EXPECT_EQ(image.status().code(), absl::StatusCode::kDataLoss) << image.status();
        EXPECT_THAT(std::string(image.status().message()), HasSubstr("'some.png'"));
      }
    }
  }
  EXPECT_GT(decoded, 0);
  EXPECT_GT(refused, 1000);
}

// Changes that the checksums of the chunks agree with, so that what they hold is looked at.
TEST(PngTest, MutatedContentWithGoodChecksumsIsDecodedOrRefused) {
  std::mt19937 random(5);
  int decoded = 0, refused = 0;
  for (const PngForm& form : AllForms()) {
    const std::string good = MakePng(12, 12, form, Pattern);
    for (int i = 0; i < 100; ++i) {
      std::string png = good.substr(0, 8);
      for (size_t at = 8; at + 12 <= good.size();) {
        size_t length = 0;
        for (size_t b = 0; b < 4; ++b) length = length * 256 + static_cast<uint8_t>(good[at + b]);
        std::string content = good.substr(at + 8, length);
        if (!content.empty() && random() % 3 == 0) {
          content[random() % content.size()] = static_cast<char>(random());
        }
        png += PngChunk(good.substr(at + 4, 4), content);
        at += 12 + length;
      }
      const auto image = DecodePicture(png);
      (image.ok() ? decoded : refused) += 1;
      if (!image.ok()) continue;
      EXPECT_EQ(static_cast<int64_t>(image->pixels.size()), image->width * image->height * 3);
    }
  }
  EXPECT_GT(decoded, 100);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace partita
