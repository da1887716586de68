#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace partita {

// Eight-bit pixels, rows from the top, the channels of a pixel side by side.
struct Image {
  int64_t width = 0;
  int64_t height = 0;
  int64_t channels = 0;  // 3: red, green, blue; 1: grey
  std::vector<uint8_t> pixels;
};

// Most pixels of an image that is decoded.
inline constexpr int64_t kMaxImagePixels = int64_t{1} << 26;

// Options of decoding an image.
struct DecodeOptions {
  int64_t channels = 3;  // 1 or 3
  // The image may come smaller, by 1/2, 1/4 or 1/8 (a JPEG, scaled in the decoder, which saves most
  // of the time), as long as it stays at least this large.
  int64_t min_width = 1;
  int64_t min_height = 1;
};

// Luminance of a colour, by the weights of ITU-R BT.601, as JPEG has them.
inline uint8_t GreyOf(int red, int green, int blue) {
  return static_cast<uint8_t>((299 * red + 587 * green + 114 * blue + 500) / 1000);
}

// Decodes what the first bytes say it is, whatever the name's ending: a JPEG (jpeg.h) or a PNG
// (png.h). DataLoss naming `path` if it is neither, or as they say.
absl::StatusOr<Image> DecodeImage(std::span<const std::byte> bytes, const DecodeOptions& options,
                                  const std::string& path);

}  // namespace partita
