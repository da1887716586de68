#include "runtime/train/data/image_ops.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "graph/support/check.h"

namespace partita {
namespace {

// The old pixels [first, first + weights) that make one new pixel; the weights sum to 1.
struct Tap {
  int64_t first = 0;
  std::vector<float> weights;
};

// Pixel i covers [i, i + 1); the new pixel's centre, in old pixels, is (i + 0.5) * step.
std::vector<Tap> TriangleTaps(int64_t from, int64_t to) {
  std::vector<Tap> taps(static_cast<size_t>(to));
  const double step = static_cast<double>(from) / static_cast<double>(to);
  const double reach = std::max(step, 1.0);
  for (int64_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * step;
    const int64_t first = std::max<int64_t>(0, static_cast<int64_t>(centre - reach + 0.5));
    const int64_t last = std::min(from, static_cast<int64_t>(centre + reach + 0.5));
    Tap& tap = taps[static_cast<size_t>(i)];
    tap.first = first;
    double sum = 0;
    for (int64_t j = first; j < last; ++j) {
      const double distance = std::abs((static_cast<double>(j) + 0.5 - centre) / reach);
      tap.weights.push_back(static_cast<float>(std::max(0.0, 1 - distance)));
      sum += tap.weights.back();
    }
    for (float& weight : tap.weights) weight = static_cast<float>(weight / sum);
  }
  return taps;
}

// out[i] += weight * in[i]
void AddScaled(float weight, const uint8_t* __restrict in, size_t count, float* __restrict out) {
  for (size_t i = 0; i < count; ++i) out[i] += weight * static_cast<float>(in[i]);
}

// A row of floats to a row of bytes, each rounded to nearest; sums of weighted bytes are at most
// 255 and a rounding error.
template <size_t kChannels>
void ResizeRow(const float* row, const std::vector<Tap>& taps, uint8_t* out) {
  for (const Tap& tap : taps) {
    const float* pixel = row + tap.first * static_cast<int64_t>(kChannels);
    float sum[kChannels];
    std::fill_n(sum, kChannels, 0.5f);
    for (float weight : tap.weights) {
      for (size_t c = 0; c < kChannels; ++c) sum[c] += weight * pixel[c];
      pixel += kChannels;
    }
    for (size_t c = 0; c < kChannels; ++c) *out++ = static_cast<uint8_t>(std::min(sum[c], 255.f));
  }
}

}  // namespace

Image Resize(const Image& image, int64_t width, int64_t height) {
  CHECK(width > 0 && height > 0 && image.width > 0 && image.height > 0);
  CHECK(image.channels == 1 || image.channels == 3);
  if (width == image.width && height == image.height) return image;
  Image result{.width = width, .height = height, .channels = image.channels, .pixels = {}};
  result.pixels.resize(static_cast<size_t>(width * height * image.channels));
  const int64_t length = image.width * image.channels;
  std::vector<float> row(static_cast<size_t>(length));
  const std::vector<Tap> across = TriangleTaps(image.width, width);
  uint8_t* out = result.pixels.data();
  for (const Tap& down : TriangleTaps(image.height, height)) {
    std::ranges::fill(row, 0.f);
    const uint8_t* in = image.pixels.data() + down.first * length;
    for (float weight : down.weights) {
      AddScaled(weight, in, row.size(), row.data());
      in += length;
    }
    image.channels == 3 ? ResizeRow<3>(row.data(), across, out)
                        : ResizeRow<1>(row.data(), across, out);
    out += width * image.channels;
  }
  return result;
}

void CropAndNormalise(const Image& image, const Window& window, const PixelNormaliser& normaliser,
                      std::span<float> x) {
  CHECK(window.left >= 0 && window.left + window.width <= image.width);
  CHECK(window.top >= 0 && window.top + window.height <= image.height);
  CHECK_EQ(static_cast<int64_t>(x.size()), image.channels * window.height * window.width);
  const int64_t channels = image.channels;
  const int64_t step = window.mirrored ? -channels : channels;
  const int64_t first = window.left + (window.mirrored ? window.width - 1 : 0);
  auto out = x.begin();
  for (int64_t c = 0; c < channels; ++c) {
    const auto& table = normaliser.table(c);
    for (int64_t h = 0; h < window.height; ++h) {
      const uint8_t* pixel =
          image.pixels.data() + ((window.top + h) * image.width + first) * channels + c;
      for (int64_t w = 0; w < window.width; ++w) *out++ = table[pixel[w * step]];
    }
  }
}

}  // namespace partita
