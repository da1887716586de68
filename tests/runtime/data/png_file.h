#pragma once

#include <png.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace partita {

// A form that PNG files have.
struct PngForm {
  int colour_type = PNG_COLOR_TYPE_RGB;
  int depth = 8;  // bits of a sample
  bool interlaced = false;
};

inline int ChannelsOf(const PngForm& form) {
  const bool colour = form.colour_type == PNG_COLOR_TYPE_RGB ||  //
                      form.colour_type == PNG_COLOR_TYPE_RGB_ALPHA;
  return (colour ? 3 : 1) + (form.colour_type & PNG_COLOR_MASK_ALPHA ? 1 : 0);
}

// Colour `index` of the palette of all files made here.
inline std::array<uint8_t, 3> PaletteColour(int index) {
  const auto byte = [](int value) { return static_cast<uint8_t>(value); };
  return {byte(13 * index), byte(255 - index), byte(index * index)};
}

// A picture of `width` x `height` pixels as PNG bytes; `sample` (x, y, channel) gives the numbers
// as they are stored, of which the lowest `depth` bits count. Files with a palette say that the
// first half of its colours are transparent.
inline std::string MakePng(int width, int height, const PngForm& form,
                           const std::function<int(int, int, int)>& sample) {
  std::string bytes;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &bytes,
      [](png_structp writer, png_bytep data, size_t size) {
        static_cast<std::string*>(png_get_io_ptr(writer))
            ->append(reinterpret_cast<const char*>(data), size);
      },
      nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height),
               form.depth, form.colour_type,
               form.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (form.colour_type == PNG_COLOR_TYPE_PALETTE) {
    std::vector<png_color> palette;
    for (int i = 0; i < 1 << form.depth; ++i) {
      const auto [red, green, blue] = PaletteColour(i);
      palette.push_back({red, green, blue});
    }
    png_set_PLTE(png, info, palette.data(), static_cast<int>(palette.size()));
    const std::vector<png_byte> alpha(palette.size() / 2, 0);
    png_set_tRNS(png, info, alpha.data(), static_cast<int>(alpha.size()), nullptr);
  }
  png_write_info(png, info);
  const int channels = ChannelsOf(form);
  std::vector<std::vector<png_byte>> rows;
  for (int y = 0; y < height; ++y) {
    std::vector<png_byte>& row = rows.emplace_back((width * channels * form.depth + 7) / 8);
    for (int i = 0; i < width * channels * form.depth; ++i) {  // bit by bit, the highest first
      const int at = i / form.depth, bit = form.depth - 1 - i % form.depth;
      const int value = sample(at / channels, y, at % channels) >> bit & 1;
      row[static_cast<size_t>(i / 8)] |= static_cast<png_byte>(value << (7 - i % 8));
    }
  }
  std::vector<png_bytep> pointers;
  for (std::vector<png_byte>& row : rows) pointers.push_back(row.data());
  png_write_image(png, pointers.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return bytes;
}

// An 8-bit colour picture: a smooth ramp whose colours depend on `tint`, as MakeJpeg's.
inline std::string MakePng(int width, int height, int tint) {
  return MakePng(width, height, PngForm{}, [&](int x, int y, int channel) {
    return channel == 0 ? 255 * x / width : channel == 1 ? 255 * y / height : tint;
  });
}

// Every colour type in every depth that it has, plain and interlaced.
inline std::vector<PngForm> AllPngForms() {
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

// Big endian, as all numbers of the format.
inline std::string PngNumber(uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift);
  return bytes;
}

// With the checksum that a chunk has.
inline std::string PngChunk(const std::string& type, const std::string& content) {
  uint32_t checksum = 0xffffffffu;
  for (char c : type + content) {
    checksum ^= static_cast<uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) checksum = checksum >> 1 ^ (checksum & 1 ? 0xedb88320u : 0);
  }
  return PngNumber(static_cast<uint32_t>(content.size())) + type + content + PngNumber(~checksum);
}

}  // namespace partita
