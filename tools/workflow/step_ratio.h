#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace partita {

// How many times as long a plan's steps take as those of another that were made in turn with them,
// each over its neighbour: the median, and what it lies between with about 95 % (Timing).
struct StepRatio {
  double median = 1, low = 1, high = 1;
};
// The ratio of rounds of both, in ns and in their order; nullopt where one of the two has none.
// Steps of one round are alike, and no proof by themselves: their median is one time.
std::optional<StepRatio> RatioOf(std::span<const int64_t> rounds, std::span<const int64_t> others);

}  // namespace partita
