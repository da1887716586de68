#pragma once

#include <turbojpeg.h>

#include <cstdint>
#include <string>
#include <vector>

namespace partita {

// A picture of `width` x `height` pixels as JPEG bytes: a smooth ramp whose colours depend on
// `tint`.
inline std::string MakeJpeg(int width, int height, int tint, int quality = 95) {
  std::vector<unsigned char> pixels;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      pixels.push_back(static_cast<unsigned char>(255 * x / width));
      pixels.push_back(static_cast<unsigned char>(255 * y / height));
      pixels.push_back(static_cast<unsigned char>(tint));
    }
  }
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  void* encoder = tjInitCompress();
  tjCompress2(encoder, pixels.data(), width, 0, height, TJPF_RGB, &bytes, &size, TJSAMP_444,
              quality, 0);
  const std::string result(reinterpret_cast<const char*>(bytes), size);
  tjFree(bytes);
  tjDestroy(encoder);
  return result;
}

}  // namespace partita
