#include "runtime/train/data/png.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/runtime/data/jpeg_file.h"
#include "tests/runtime/data/png_file.h"

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

TEST(PngTest, EveryFormBecomesEightBitColour) {
  for (const PngForm& form : AllPngForms()) {
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
  for (const PngForm& form : AllPngForms()) {
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

}  // namespace
}  // namespace partita
