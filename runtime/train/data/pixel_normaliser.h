#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace partita {

// Mean and standard deviation of pixel values in [0, 1]: one of each for all channels, or one per
// channel.
struct PixelStatistics {
  std::vector<float> mean = {};
  std::vector<float> std = {};
};

// Statistics of MNIST's training images (one channel).
PixelStatistics MnistStatistics();
// Statistics of ImageNet's training images: red, green, blue for three channels, their average for
// any other number.
PixelStatistics ImageNetStatistics(int64_t channels);

// Maps an 8-bit pixel v of channel c to (v / 255 - mean[c]) / std[c], by a table.
class PixelNormaliser {
 public:
  // InvalidArgument if the sizes are neither 1 nor `channels` or a std is not a positive number;
  // `what` begins the message.
  static absl::StatusOr<PixelNormaliser> Create(int64_t channels, const PixelStatistics& statistics,
                                                const std::string& what);

  const std::array<float, 256>& table(int64_t channel) const {
    return tables_[static_cast<size_t>(channel)];
  }

 private:
  std::vector<std::array<float, 256>> tables_;
};

}  // namespace partita
