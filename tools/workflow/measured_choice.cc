#include "tools/workflow/measured_choice.h"

#include <algorithm>

#include "graph/support/status_macros.h"

namespace partita {
namespace {

// Whether one is faster than the other beyond the spread, which a few steps do not show.
bool IsFaster(const Timing& a, const Timing& b) {
  constexpr int64_t kFewest = 5;
  return a.samples >= kFewest && b.samples >= kFewest && a.high_ns < b.median_ns &&
         a.median_ns < b.low_ns;
}

class Halving {
 public:
  Halving(std::span<const Contender> contenders, const std::function<bool()>& is_over,
          StepTimer& timer)
      : contenders_(contenders), is_over_(is_over), timer_(timer) {
    for (size_t k = 0; k < contenders.size(); ++k) left_.push_back(k);
  }

  absl::StatusOr<MeasuredChoice> Run() {
    size_t steps = kFirstSteps;
    for (; left_.size() > 2; steps *= 2) {
      RETURN_IF_ERROR(Measure(steps));
      if (is_over_()) break;
      DropSlowerHalf();
    }
    for (; !is_over_() && left_.size() == 2; steps += kFirstSteps) {
      RETURN_IF_ERROR(Measure(std::min(steps, kMostSteps)));
      const Timing a = TimingOf(timer_.TimesOf(left_[0])), b = TimingOf(timer_.TimesOf(left_[1]));
      if (steps >= kMostSteps || IsFaster(a, b) || IsFaster(b, a)) break;
    }
    return Choose();
  }

 private:
  // Rounds until all that are left have so many steps.
  absl::Status Measure(size_t steps) {
    const auto lacks = [&](size_t k) { return timer_.TimesOf(k).size() < steps; };
    while (!is_over_() && std::any_of(left_.begin(), left_.end(), lacks)) {
      RETURN_IF_ERROR(timer_.Round());
    }
    return absl::OkStatus();
  }

  int64_t MedianOf(size_t k) const { return TimingOf(timer_.TimesOf(k)).median_ns; }

  // At most the best expert and the best other are left in the end.
  void DropSlowerHalf() {
    std::stable_sort(left_.begin(), left_.end(),
                     [&](size_t a, size_t b) { return MedianOf(a) < MedianOf(b); });
    const size_t most = std::max<size_t>(2, (left_.size() + 1) / 2);
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
    std::optional<size_t> expert, other;  // the fastest of each kind
    const auto take = [&](std::optional<size_t>& best, size_t k) {
      if (!best.has_value() || choice.timings[k]->median_ns < choice.timings[*best]->median_ns) {
        best = k;
      }
    };
    for (size_t k = 0; k < contenders_.size(); ++k) {
      const auto times = timer_.TimesOf(k);
      choice.timings.push_back(times.empty() ? std::nullopt : std::optional(TimingOf(times)));
    }
    // Those that were dropped have been measured in fewer steps.
    for (size_t k : left_) {
      if (choice.timings[k].has_value()) take(contenders_[k].is_expert ? expert : other, k);
    }
    if (!expert.has_value() || !other.has_value()) {
      choice.chosen = expert.value_or(other.value_or(0));
      return choice;
    }
    const Timing &by_expert = *choice.timings[*expert], &by_other = *choice.timings[*other];
    const bool other_wins = IsFaster(by_other, by_expert);
    choice.is_sure = other_wins || IsFaster(by_expert, by_other);
    choice.chosen = other_wins ? *other : *expert;
    if (!other_wins && by_other.median_ns < by_expert.median_ns) choice.gave_way = other;
    return choice;
  }

  std::span<const Contender> contenders_;
  const std::function<bool()>& is_over_;
  StepTimer& timer_;
  std::vector<size_t> left_;
};

}  // namespace

absl::StatusOr<MeasuredChoice> ChooseByMeasurement(std::span<const Contender> contenders,
                                                   const std::function<bool()>& is_over,
                                                   StepTimer& timer) {
  return Halving(contenders, is_over, timer).Run();
}

}  // namespace partita
