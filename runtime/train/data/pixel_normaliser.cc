#include "runtime/train/data/pixel_normaliser.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace partita {

PixelStatistics MnistStatistics() { return {{0.1307f}, {0.3081f}}; }

PixelStatistics ImageNetStatistics(int64_t channels) {
  if (channels == 3) return {{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}};
  return {{0.449f}, {0.226f}};
}

absl::StatusOr<PixelNormaliser> PixelNormaliser::Create(int64_t channels,
                                                        const PixelStatistics& statistics,
                                                        const std::string& what) {
  const auto& [mean, std] = statistics;
  for (const size_t given : {mean.size(), std.size()}) {
    if (given == 1 || given == static_cast<size_t>(channels)) continue;
    return absl::InvalidArgumentError(absl::StrCat(what, " has ", channels, " channels; ", given,
                                                   " means or standard deviations are given"));
  }
  PixelNormaliser result;
  for (int64_t c = 0; c < channels; ++c) {
    const float m = mean[mean.size() == 1 ? 0 : static_cast<size_t>(c)];
    const float s = std[std.size() == 1 ? 0 : static_cast<size_t>(c)];
    if (!std::isfinite(m) || !std::isfinite(s) || s <= 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, ": pixels cannot be normalised by mean ", m, " and std ", s));
    }
    std::array<float, 256>& table = result.tables_.emplace_back();
    for (size_t v = 0; v < table.size(); ++v) table[v] = (static_cast<float>(v) / 255.f - m) / s;
  }
  return result;
}

}  // namespace partita
