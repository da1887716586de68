#include "tools/workflow/step_ratio.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "cost_model/profile.h"

namespace partita {

std::optional<StepRatio> RatioOf(std::span<const int64_t> rounds, std::span<const int64_t> others) {
  constexpr double kUnits = 1e9;  // of 1: ratios as whole numbers, as Timing has them
  std::vector<int64_t> ratios;
  for (size_t k = 0; k < std::min(rounds.size(), others.size()); ++k) {
    const double ratio = static_cast<double>(rounds[k]) / static_cast<double>(others[k]);
    ratios.push_back(std::llround(std::min(ratio, 1e9) * kUnits));
  }
  if (ratios.empty()) return std::nullopt;
  const Timing timing = TimingOf(ratios);
  const auto ratio_of = [](int64_t units) { return static_cast<double>(units) / kUnits; };
  return StepRatio{ratio_of(timing.median_ns), ratio_of(timing.low_ns), ratio_of(timing.high_ns)};
}

}  // namespace partita
