#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

namespace partita {

// Time that a part of planning took.
struct PhaseTime {
  // "experts", "lower bound", "data parallelism", "search", "buckets", "plan"
  std::string name;
  double seconds = 0;
};

// Time that planning has taken, and may take, in seconds of the wall clock.
class PlanClock {
 public:
  // `limit_seconds`: 0 where there is none.
  explicit PlanClock(double limit_seconds) : limit_(limit_seconds) {}

  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  // Whether a part of the limit has passed.
  bool IsPast(double part) const { return limit_ > 0 && Seconds() > part * limit_; }
  // Whether less than so much of the limit is left.
  bool HasLess(double seconds) const { return limit_ > 0 && limit_ - Seconds() < seconds; }
  // The rest of the limit but for so much at its end; never nothing. 0: there is no limit.
  double LeftBut(double seconds) const {
    return limit_ > 0 ? std::max(kLeast, limit_ - seconds - Seconds()) : 0;
  }
  double limit() const { return limit_; }
  void EndPhase(const char* name) {
    const double now = Seconds();
    phases_.push_back({name, now - phase_});
    phase_ = now;
  }
  const std::vector<PhaseTime>& phases() const { return phases_; }

 private:
  static constexpr double kLeast = 1e-3;

  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  const double limit_;
  double phase_ = 0;  // when the current phase began
  std::vector<PhaseTime> phases_;
};

}  // namespace partita
