#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/train/data/data_source.h"
#include "runtime/train/data/pixel_normaliser.h"

namespace partita {

// Digits drawn with a pen, a stand-in for MNIST where it is not available: 28 x 28 grey pixels, ten
// classes, light strokes on black, each digit a polyline whose corners wobble, then scaled,
// sheared, turned (up to 14 degrees), shifted (up to 2.5 pixels), drawn 1.6 to 3.4 pixels thick,
// and speckled. The same seed, split and index give the same pixels everywhere.

inline constexpr int64_t kDigitSide = 28;
using DigitPixels = std::array<uint8_t, kDigitSide * kDigitSide>;

// Draws a digit and returns its label; digits are balanced over each run of ten samples.
int32_t DrawDigit(uint64_t seed, DataSplit split, int64_t index, DigitPixels* pixels);

struct SyntheticDigitsOptions {
  SampleShape shape = {};  // shape wanted; empty: 1x28x28
  int classes = 0;         // classes wanted; 0: 10
  int64_t size = 0;        // 0: 60,000 to train on, 10,000 to evaluate on
  uint64_t seed = 0;
  DataSplit split = DataSplit::kTrain;
  PixelStatistics statistics = {};  // empty: MNIST's
};

// Draws each sample when it is read, normalised as OpenIdxSource does.
absl::StatusOr<std::unique_ptr<DataSource>> MakeSyntheticDigitsSource(
    const SyntheticDigitsOptions& options);

// The four files of MNIST with its names, in an existing folder, holding the first samples of the
// two splits.
absl::Status WriteSyntheticDigitsIdx(const std::string& folder, int64_t train_samples,
                                     int64_t test_samples, uint64_t seed);

}  // namespace partita
