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

// Options of decoding a JPEG.
struct JpegOptions {
  int64_t channels = 3;  // 1 or 3
  // The picture may come smaller, by 1/2, 1/4 or 1/8 (scaled in the decoder, which saves most of
  // the time), as long as it stays at least this large.
  int64_t min_width = 1;
  int64_t min_height = 1;
};

// Decodes a baseline or progressive JPEG: grey, colour or CMYK. DataLoss naming `path` if it is
// something else, is cut off or has more than 2^26 pixels; other complaints of the decoder (stray
// bytes) pass.
absl::StatusOr<Image> DecodeJpeg(std::span<const std::byte> bytes, const JpegOptions& options,
                                 const std::string& path);

}  // namespace partita
