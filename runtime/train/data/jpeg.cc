#include "runtime/train/data/jpeg.h"

#include <turbojpeg.h>

#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/support/error_category.h"

namespace partita {
namespace {

struct Destroy {
  void operator()(void* decoder) const { tjDestroy(decoder); }
};
using Decoder = std::unique_ptr<void, Destroy>;

absl::Status Broken(const std::string& path, const std::string& what) {
  return absl::DataLossError(absl::StrCat("'", path, "' is a broken JPEG: ", what));
}

// Adobe's CMYK, which is stored inverted: each ink's byte says how much light passes.
std::vector<uint8_t> LightOfInks(const std::vector<uint8_t>& cmyk, int64_t channels) {
  std::vector<uint8_t> result;
  result.reserve(cmyk.size() / 4 * static_cast<size_t>(channels));
  for (size_t i = 0; i < cmyk.size(); i += 4) {
    int light[3];
    for (size_t c = 0; c < 3; ++c) light[c] = (cmyk[i + c] * cmyk[i + 3] + 127) / 255;
    if (channels == 3) {
      for (int value : light) result.push_back(static_cast<uint8_t>(value));
    } else {
      result.push_back(GreyOf(light[0], light[1], light[2]));
    }
  }
  return result;
}

struct JpegHeader {
  int width = 0, height = 0, subsampling = 0, colour_space = 0;
};

// The smallest of 1, 1/2, 1/4, 1/8 of the size that is still large enough.
void Shrink(const DecodeOptions& options, JpegHeader* header) {
  for (const int divisor : {8, 4, 2}) {
    const tjscalingfactor factor = {1, divisor};
    const int width = TJSCALED(header->width, factor), height = TJSCALED(header->height, factor);
    if (width < options.min_width || height < options.min_height) continue;
    header->width = width;
    header->height = height;
    return;
  }
}

}  // namespace

absl::StatusOr<Image> DecodeJpeg(std::span<const std::byte> bytes, const DecodeOptions& options,
                                 const std::string& path) {
  const Decoder decoder(tjInitDecompress());
  if (decoder == nullptr) return MemoryError("no memory for a JPEG decoder");
  const auto* start = reinterpret_cast<const unsigned char*>(bytes.data());
  JpegHeader header;
  if (tjDecompressHeader3(decoder.get(), start, bytes.size(), &header.width, &header.height,
                          &header.subsampling, &header.colour_space) != 0) {
    return Broken(path, tjGetErrorStr2(decoder.get()));
  }
  if (int64_t{header.width} * header.height > kMaxImagePixels) {
    return Broken(path, absl::StrCat(header.width, " x ", header.height, " pixels; at most ",
                                     kMaxImagePixels, " are read"));
  }
  Shrink(options, &header);
  const bool inks = header.colour_space == TJCS_CMYK || header.colour_space == TJCS_YCCK;
  const int format = inks ? TJPF_CMYK : options.channels == 1 ? TJPF_GRAY : TJPF_RGB;
  Image image{
      .width = header.width, .height = header.height, .channels = options.channels, .pixels = {}};
  image.pixels.resize(static_cast<size_t>(image.width * image.height * tjPixelSize[format]));
  const int code = tjDecompress2(decoder.get(), start, bytes.size(), image.pixels.data(),
                                 header.width, 0, header.height, format, TJFLAG_LIMITSCANS);
  if (code != 0) {
    const std::string complaint = tjGetErrorStr2(decoder.get());
    const bool cut_off = absl::StrContains(complaint, "remature end");  // with a small or large P
    if (cut_off || tjGetErrorCode(decoder.get()) != TJERR_WARNING) return Broken(path, complaint);
  }
  if (inks) image.pixels = LightOfInks(image.pixels, options.channels);
  return image;
}

}  // namespace partita
