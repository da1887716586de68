#pragma once

#include <optional>
#include <string>

namespace partita {

// Estimates how long work goes on, from how much of it is done at which time. What it says is
// steady: it counts down, and jumps only where the estimate has changed by more than a fifth.
class TimeLeft {
 public:
  // Takes note that `done` of `wanted` are done at `now`, in seconds of any clock. A clock or an
  // amount that goes back, and another `wanted`, begin anew. `limit_seconds`: the work ends so long
  // after its first note at the latest; 0: it may take any time.
  void Note(double done, double wanted, double now, double limit_seconds = 0);

  // Seconds from the last note on; nullopt while too little was done to say.
  std::optional<double> Seconds() const;

 private:
  double first_done_ = 0, begin_ = 0, last_done_ = 0, wanted_ = 0, now_ = -1;
  double rate_ = 0;  // of late, per second; 0: not known
  double rate_from_ = 0, rate_done_ = 0;
  std::optional<double> end_;  // as it was said
};

// "about 25 s left", "about 3 min left", "about 2 h 10 min left".
std::string TimeLeftText(double seconds);

}  // namespace partita
