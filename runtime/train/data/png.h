#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/train/data/image.h"

namespace partita {

// Decodes a PNG of any colour type, depth and interlacing, to the grey or RGB that `options` asks
// for, in its full size. Rules of the values, which are those of Pillow's convert("RGB") but for 16
// bits:
//   16 bits      round(v * 255 / 65535)
//   1, 2, 4      grey is scaled to 0..255
//   palette      the palette's colours
//   alpha        left out, transparent colours of a palette included: a pixel has its colour as
//                stored, however transparent it is
//   colours      as stored: no gamma and no profile is applied; grey of a colour is GreyOf
// An animation gives its default image. DataLoss naming `path` if it is something else, is broken
// or cut off, or has more than kMaxImagePixels; complaints that leave the pixels as they are pass.
// Before anything is decoded, memory for the result is taken only if the file is long enough to
// hold so many pixels.
absl::StatusOr<Image> DecodePng(std::span<const std::byte> bytes, const DecodeOptions& options,
                                const std::string& path);

}  // namespace partita
