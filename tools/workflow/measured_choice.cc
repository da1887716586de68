#include "tools/workflow/measured_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/support/status_macros.h"
#include "tools/workflow/step_ratio.h"

namespace partita {
namespace {

// Relative deviations: of a prediction, and the least of one step.
constexpr double kDeviationOfPrices = 0.1, kLeastDeviationOfSteps = 0.05;

// How many are left of so many contenders after a level.
size_t LeftOf(size_t contenders) { return std::max<size_t>(2, (contenders + 1) / 2); }

int LevelsOf(size_t contenders) {
  int levels = 1;
  for (; contenders > 2; contenders = LeftOf(contenders)) ++levels;
  return levels;
}

class Halving {
 public:
  Halving(std::span<const Contender> contenders, const std::function<double()>& part_of_time,
          StepTimer& timer)
      : contenders_(contenders), part_of_time_(part_of_time), timer_(timer) {
    for (size_t k = 0; k < contenders.size(); ++k) left_.push_back(k);
  }

  absl::StatusOr<MeasuredChoice> Run() {
    if (!IsOver()) RETURN_IF_ERROR(timer_.Round());
    const double begin = part_of_time_();
    const double of_level = (1 - begin) / LevelsOf(contenders_.size());
    size_t steps = kFirstSteps;
    for (int level = 1; left_.size() > 2; ++level, steps *= 2) {
      RETURN_IF_ERROR(Measure(steps, begin + level * of_level));
      if (IsOver()) break;
      DropSlowerHalf();
    }
    for (; !IsOver() && left_.size() == 2; steps += kFirstSteps) {
      RETURN_IF_ERROR(Measure(std::min(steps, kMostSteps), 1));
      const size_t a = left_[0], b = left_[1];
      if (steps >= kMostSteps || IsFaster(a, b) || IsFaster(b, a)) break;
    }
    return Choose();
  }

 private:
  bool IsOver() const { return part_of_time_() >= 1; }

  // Rounds until all that are left have so many steps, or that part of the time is over.
  absl::Status Measure(size_t steps, double until) {
    const auto lacks = [&](size_t k) { return timer_.TimesOf(k).size() < steps; };
    while (part_of_time_() < until && std::any_of(left_.begin(), left_.end(), lacks)) {
      RETURN_IF_ERROR(timer_.Round());
    }
    return absl::OkStatus();
  }

  // Whether one is faster than the other beyond the spread.
  bool IsFaster(size_t a, size_t b) const {
    const auto x = timer_.RoundsOf(a), y = timer_.RoundsOf(b);
    return std::min(x.size(), y.size()) >= kFewestRounds && RatioOf(x, y)->high < 1;
  }

  // How many times as long as predicted steps take here: the upper median, by which the right plan was
  // chosen more often than by the mean of two in the middle (measured_choice_test).
  double SlownessOf(std::span<const std::optional<Timing>> timings) const {
    std::vector<double> ratios;
    for (size_t k = 0; k < timings.size(); ++k) {
      const auto predicted = static_cast<double>(contenders_[k].predicted.value());
      if (!timings[k].has_value() || predicted <= 0) continue;
      ratios.push_back(static_cast<double>(timings[k]->median_ns) / predicted);
    }
    if (ratios.empty()) return 1;
    const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
    std::nth_element(ratios.begin(), middle, ratios.end());
    return *middle;
  }

  // Step times in ns: the means of what was measured and predicted, weighted by the inverse of their
  // variances. Infinity for what was not measured.
  std::vector<double> Estimates() const {
    const std::vector<std::optional<Timing>> timings = Timings();
    const double slowness = SlownessOf(timings);
    std::vector<double> estimates;
    for (size_t k = 0; k < timings.size(); ++k) {
      if (!timings[k].has_value()) {
        estimates.push_back(std::numeric_limits<double>::infinity());
        continue;
      }
      const Timing& timing = *timings[k];
      const auto median = static_cast<double>(timing.median_ns);
      const auto predicted = slowness * static_cast<double>(contenders_[k].predicted.value());
      const double of_median =
          std::max(0.5 * static_cast<double>(timing.high_ns - timing.low_ns) / median,
                   kLeastDeviationOfSteps / std::sqrt(static_cast<double>(timing.samples)));
      const double weight = predicted > 0 ? std::pow(of_median / kDeviationOfPrices, 2) : 0;
      estimates.push_back((median + weight * predicted) / (1 + weight));
    }
    return estimates;
  }

  std::vector<std::optional<Timing>> Timings() const {
    std::vector<std::optional<Timing>> timings;
    for (size_t k = 0; k < contenders_.size(); ++k) {
      const auto times = timer_.TimesOf(k);
      timings.push_back(times.empty() ? std::nullopt : std::optional(TimingOf(times)));
    }
    return timings;
  }

  // At most the best expert and the best other are left in the end.
  void DropSlowerHalf() {
    const std::vector<double> estimates = Estimates();
    std::stable_sort(left_.begin(), left_.end(),
                     [&](size_t a, size_t b) { return estimates[a] < estimates[b]; });
    const size_t most = LeftOf(left_.size());
    bool has_expert = false, has_other = false;
    std::vector<size_t> kept, rest;
    for (size_t k : left_) {
      bool& has = contenders_[k].is_expert ? has_expert : has_other;
      (has ? rest : kept).push_back(k);
      has = true;
    }
    for (size_t k : rest) {
      if (kept.size() < most) {
        kept.push_back(k);
      } else {
        timer_.Drop(k);
      }
    }
    left_ = std::move(kept);
  }

  MeasuredChoice Choose() const {
    MeasuredChoice choice;
    choice.timings = Timings();
    const std::vector<double> estimates = Estimates();
    std::optional<size_t> expert, other;  // the fastest of each kind
    const auto take = [&](std::optional<size_t>& best, size_t k) {
      if (!best.has_value() || estimates[k] < estimates[*best]) best = k;
    };
    // Those that were dropped have been measured in fewer steps.
    for (size_t k : left_) {
      if (choice.timings[k].has_value()) take(contenders_[k].is_expert ? expert : other, k);
    }
    if (!expert.has_value() || !other.has_value()) {
      choice.chosen = expert.value_or(other.value_or(0));
      return choice;
    }
    const Timing &by_expert = *choice.timings[*expert], &by_other = *choice.timings[*other];
    const bool other_wins = IsFaster(*other, *expert);
    choice.is_sure = other_wins || IsFaster(*expert, *other);
    choice.chosen = other_wins ? *other : *expert;
    if (!other_wins && by_other.median_ns < by_expert.median_ns) choice.gave_way = other;
    return choice;
  }

  std::span<const Contender> contenders_;
  const std::function<double()>& part_of_time_;
  StepTimer& timer_;
  std::vector<size_t> left_;
};

}  // namespace

absl::StatusOr<MeasuredChoice> ChooseByMeasurement(std::span<const Contender> contenders,
                                                   const std::function<double()>& part_of_time,
                                                   StepTimer& timer) {
  return Halving(contenders, part_of_time, timer).Run();
}

}  // namespace partita
