#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/train/data/image.h"

namespace partita {

// Decodes a baseline or progressive JPEG: grey, colour or CMYK. DataLoss naming `path` if it is
// something else, is cut off or has more than kMaxImagePixels; other complaints of the decoder
// (stray bytes) pass.
absl::StatusOr<Image> DecodeJpeg(std::span<const std::byte> bytes, const DecodeOptions& options,
                                 const std::string& path);

}  // namespace partita
