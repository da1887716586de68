#include "tools/cli/time_left.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"

namespace partita {
namespace {

constexpr double kFirstSeconds = 1;  // before that nothing is said
constexpr double kRateSeconds = 1;   // a rate of late is taken over so long at least
constexpr double kNewRate = 0.3;     // the weight of the latest one
constexpr double kJump = 0.2;        // of the time left: a change that is shown
constexpr double kSmallestJump = 2;  // seconds

}  // namespace

void TimeLeft::Note(double done, double wanted, double now, double limit_seconds) {
  if (now_ < 0 || now < now_ || done < last_done_ || wanted != wanted_) {
    *this = TimeLeft();
    first_done_ = rate_done_ = done;
    begin_ = rate_from_ = now;
    wanted_ = wanted;
  }
  last_done_ = done;
  now_ = now;
  if (const double seconds = now - rate_from_; seconds >= kRateSeconds && done > rate_done_) {
    const double latest = (done - rate_done_) / seconds;
    rate_ = rate_ > 0 ? kNewRate * latest + (1 - kNewRate) * rate_ : latest;
    rate_from_ = now;
    rate_done_ = done;
  }
  std::optional<double> end;
  if (now - begin_ >= kFirstSeconds && rate_ > 0) {
    // What was so far and what was of late count alike.
    const double whole = (done - first_done_) / (now - begin_);
    end = now + std::max(0.0, wanted - done) / ((whole + rate_) / 2);
  }
  if (limit_seconds > 0) end = std::min(end.value_or(INFINITY), begin_ + limit_seconds);
  if (!end.has_value()) return;
  const double jump = std::max(kSmallestJump, kJump * (*end - now));
  if (!end_.has_value() || std::abs(*end - *end_) > jump || *end_ < now) end_ = end;
}

std::optional<double> TimeLeft::Seconds() const {
  if (!end_.has_value()) return std::nullopt;
  return std::max(0.0, *end_ - now_);
}

std::string TimeLeftText(double seconds) {
  if (seconds < 5) return "a few seconds left";
  if (seconds < 90) return absl::StrFormat("about %.0f s left", 5 * std::ceil(seconds / 5));
  const double minutes = std::ceil(seconds / 60);
  if (minutes < 90) return absl::StrFormat("about %.0f min left", minutes);
  const double hours = std::floor(minutes / 60);
  const double rest = 10 * std::floor((minutes - 60 * hours) / 10);
  return rest > 0 ? absl::StrFormat("about %.0f h %.0f min left", hours, rest)
                  : absl::StrFormat("about %.0f h left", hours);
}

}  // namespace partita
