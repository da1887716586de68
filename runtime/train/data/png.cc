// libpng reports errors by longjmp. So every stage of decoding is one function that begins with
// setjmp and has no object with a destructor; what they share lies in PngDecoder, which outlives
// them.
#include "runtime/train/data/png.h"

#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "graph/support/error_category.h"

namespace partita {
namespace {

// Deflate makes at most 1032 bytes of one.
constexpr int64_t kMostExpansion = 1032;

absl::Status BrokenPng(const std::string& path, const std::string& what) {
  return absl::DataLossError(absl::StrCat("'", path, "' is a broken PNG: ", what));
}

struct PngDecoder {
  std::span<const std::byte> rest;  // bytes not read yet
  png_structp png = nullptr;
  png_infop info = nullptr;
  char error[200] = "";
  bool out_of_memory = false;

  ~PngDecoder() { png_destroy_read_struct(&png, &info, nullptr); }
};

[[noreturn]] void OnError(png_structp png, png_const_charp message) {
  auto* decoder = static_cast<PngDecoder*>(png_get_error_ptr(png));
  std::snprintf(decoder->error, sizeof(decoder->error), "%s", message);
  png_longjmp(png, 1);
}

void OnWarning(png_structp, png_const_charp) {}

png_voidp Allocate(png_structp png, png_alloc_size_t size) {
  void* memory = std::malloc(size);
  if (memory == nullptr) static_cast<PngDecoder*>(png_get_mem_ptr(png))->out_of_memory = true;
  return memory;
}

void Free(png_structp, png_voidp memory) { std::free(memory); }

void ReadBytes(png_structp png, png_bytep out, size_t size) {
  auto* decoder = static_cast<PngDecoder*>(png_get_io_ptr(png));
  if (size > decoder->rest.size()) png_error(png, "it is cut off");
  std::memcpy(out, decoder->rest.data(), size);
  decoder->rest = decoder->rest.subspan(size);
}

// Reads all that comes before the pixels. False on errors, as are the other two.
bool ReadHeader(PngDecoder& decoder) {
  if (setjmp(png_jmpbuf(decoder.png))) return false;
  decoder.info = png_create_info_struct(decoder.png);
  if (decoder.info == nullptr) png_error(decoder.png, "no memory");
  png_set_read_fn(decoder.png, &decoder, ReadBytes);
  // The product is limited below, with a message of its own.
  png_set_user_limits(decoder.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  // Texts, profiles and the like are passed over unread: they could take much memory.
  png_set_keep_unknown_chunks(decoder.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_read_info(decoder.png, decoder.info);
  return true;
}

// Asks for 8-bit grey or RGB.
bool SetConversions(PngDecoder& decoder) {
  if (setjmp(png_jmpbuf(decoder.png))) return false;
  png_set_scale_16(decoder.png);
  png_set_expand(decoder.png);  // a palette to its colours, few bits to eight
  png_set_strip_alpha(decoder.png);
  png_set_interlace_handling(decoder.png);
  png_read_update_info(decoder.png, decoder.info);
  return true;
}

bool ReadPixels(PngDecoder& decoder, Image& image) {
  if (setjmp(png_jmpbuf(decoder.png))) return false;
  const size_t row = png_get_rowbytes(decoder.png, decoder.info);
  const int passes = png_get_interlace_type(decoder.png, decoder.info) == PNG_INTERLACE_ADAM7
                         ? PNG_INTERLACE_ADAM7_PASSES
                         : 1;
  for (int pass = 0; pass < passes; ++pass) {
    for (size_t y = 0; y < static_cast<size_t>(image.height); ++y) {
      png_read_row(decoder.png, image.pixels.data() + y * row, nullptr);
    }
  }
  png_read_end(decoder.png, nullptr);
  return true;
}

absl::Status PngError(const PngDecoder& decoder, const std::string& path) {
  if (decoder.out_of_memory) return MemoryError(absl::StrCat("no memory to decode '", path, "'"));
  return BrokenPng(path, decoder.error);
}

// Refuses what is too large, and what cannot hold what it announces.
absl::Status CheckPngSize(const PngDecoder& decoder, int64_t file_bytes, const std::string& path) {
  const int64_t width = png_get_image_width(decoder.png, decoder.info);
  const int64_t height = png_get_image_height(decoder.png, decoder.info);
  if (width > kMaxImagePixels / height) {
    return BrokenPng(path, absl::StrCat(width, " x ", height, " pixels; at most ", kMaxImagePixels,
                                        " are read"));
  }
  const int64_t bits = int64_t{png_get_bit_depth(decoder.png, decoder.info)} *
                       png_get_channels(decoder.png, decoder.info);
  if (width * height * bits / 8 <= file_bytes * kMostExpansion) return absl::OkStatus();
  return BrokenPng(path, absl::StrCat(file_bytes, " bytes cannot hold its ", width, " x ", height,
                                      " pixels: it is cut off"));
}

// Grey of RGB, or RGB of grey.
Image WithChannels(Image image, int64_t channels) {
  if (image.channels == channels) return image;
  const auto pixels = static_cast<size_t>(image.width * image.height);
  if (channels == 1) {  // in place: each pixel is written behind those still to be read
    std::vector<uint8_t>& p = image.pixels;
    for (size_t i = 0; i < pixels; ++i) p[i] = GreyOf(p[3 * i], p[3 * i + 1], p[3 * i + 2]);
    p.resize(pixels);
  } else {
    std::vector<uint8_t> colours(3 * pixels);
    for (size_t i = 0; i < colours.size(); ++i) colours[i] = image.pixels[i / 3];
    image.pixels = std::move(colours);
  }
  image.channels = channels;
  return image;
}

}  // namespace

absl::StatusOr<Image> DecodePng(std::span<const std::byte> bytes, const DecodeOptions& options,
                                const std::string& path) {
  PngDecoder decoder;
  decoder.rest = bytes;
  decoder.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &decoder, OnError, OnWarning,
                                         &decoder, Allocate, Free);
  if (decoder.png == nullptr) return MemoryError("no memory for a PNG decoder");
  if (!ReadHeader(decoder)) return PngError(decoder, path);
  const absl::Status fits = CheckPngSize(decoder, static_cast<int64_t>(bytes.size()), path);
  if (!fits.ok()) return fits;
  if (!SetConversions(decoder)) return PngError(decoder, path);
  Image image{.width = png_get_image_width(decoder.png, decoder.info),
              .height = png_get_image_height(decoder.png, decoder.info),
              .channels = png_get_channels(decoder.png, decoder.info),
              .pixels = {}};
  image.pixels.resize(static_cast<size_t>(image.width * image.height * image.channels));
  if (!ReadPixels(decoder, image)) return PngError(decoder, path);
  return WithChannels(std::move(image), options.channels);
}

}  // namespace partita
