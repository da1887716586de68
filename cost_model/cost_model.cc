#include "cost_model/cost_model.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace partita {

Nanos CostModel::StepOverhead(int64_t) const { return Nanos(0); }

absl::string_view Name(CostSource source) {
  switch (source) {
    case CostSource::kMeasured:
      return "measured";
    case CostSource::kUnsteady:
      return "unsteady";
    case CostSource::kInterpolated:
      return "interpolated";
    case CostSource::kRoofline:
      return "roofline";
  }
  return "?";
}

bool Beats(const TaskCost& cost, const TaskCost& other) {
  return std::tuple(cost.source, cost.time) < std::tuple(other.source, other.time);
}

TaskCost CostOfSeconds(double seconds, CostSource source, double spread) {
  constexpr double kLongest = 0x1p62;
  const double nanos = std::isnan(seconds) ? kLongest : std::round(seconds * 1e9);
  return {Nanos(static_cast<int64_t>(std::clamp(nanos, 1.0, kLongest))), source, spread};
}

}  // namespace partita
