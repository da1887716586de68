#pragma once

#include <cstdint>
#include <span>

#include "runtime/train/data/image.h"
#include "runtime/train/data/pixel_normaliser.h"

namespace partita {

// Resizes an image of 1 or 3 channels with a triangle filter: bilinear interpolation when growing;
// when shrinking the triangle is as wide as the step, so every pixel counts (the rule of Pillow's
// BILINEAR). Vertical, then horizontal, rounded once at the end.
Image Resize(const Image& image, int64_t width, int64_t height);

// A window of an image; it lies inside.
struct Window {
  int64_t left = 0;
  int64_t top = 0;
  int64_t width = 0;
  int64_t height = 0;
  bool mirrored = false;  // true: left and right swapped
};

// The window's pixels as floats, channel by channel (channels x height x width), normalised. `x`
// has just that size.
void CropAndNormalise(const Image& image, const Window& window, const PixelNormaliser& normaliser,
                      std::span<float> x);

}  // namespace partita
