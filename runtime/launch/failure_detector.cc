#include "runtime/launch/failure_detector.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace partita {
namespace {

constexpr double kSecond = 1e9;
constexpr int64_t kAsleep = 1'000'000'000;

double Seconds(int64_t ns) { return static_cast<double>(ns) / kSecond; }

}  // namespace

FailureDetector::FailureDetector(int ranks, FailureDetectorOptions options, int64_t now)
    : options_(options), ranks_(static_cast<size_t>(ranks)), asked_(now) {
  for (size_t k = 0; k < ranks_.size(); ++k) {
    ranks_[k].name = absl::StrCat("rank ", k);
    ranks_[k].heard = ranks_[k].since = now;
  }
}

void FailureDetector::Observe(int rank, RankProgress progress, int64_t now) {
  Rank& r = ranks_[static_cast<size_t>(rank)];
  const bool was_working = r.progress.state == RankState::kWorking;
  if (progress.completed != r.progress.completed) {
    if (was_working) r.longest = std::max(r.longest, now - r.since);
    r.since = now;
  } else if (!was_working || progress.state != RankState::kWorking) {
    r.since = now;
  } else {
    r.since += std::clamp<int64_t>(progress.starved - r.progress.starved, 0, now - r.heard);
  }
  r.progress = progress;
  r.heard = now;
}

void FailureDetector::Failed(int rank, int code, std::string reason, int64_t now) {
  Rank& r = ranks_[static_cast<size_t>(rank)];
  r.failed = true;
  r.place = failures_++;
  r.code = code;
  r.reason = std::move(reason);
  if (first_failure_ < 0) first_failure_ = now;
}

bool FailureDetector::AllLeft() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.left; });
}

std::optional<Verdict> FailureDetector::Detect(int64_t now) {
  if (now - asked_ > kAsleep) {
    for (Rank& r : ranks_) r.heard = r.since = now;
  }
  asked_ = now;
  if (auto verdict = JudgeFailures(now)) return verdict;
  for (size_t k = 0; k < ranks_.size(); ++k) {
    if (auto verdict = JudgeSigns(k, now)) return verdict;
  }
  return std::nullopt;
}

std::optional<Verdict> FailureDetector::JudgeFailures(int64_t now) const {
  if (failures_ == 0) return std::nullopt;
  const auto order = [](const Rank& r) {
    return std::tuple(!r.failed, r.code != kCheckFailed, r.place);
  };
  const auto first =
      std::min_element(ranks_.begin(), ranks_.end(),
                       [&](const Rank& a, const Rank& b) { return order(a) < order(b); });
  const bool common = std::all_of(ranks_.begin(), ranks_.end(),
                                  [&](const Rank& r) { return r.failed && r.code == first->code; });
  const int rank = static_cast<int>(first - ranks_.begin());
  if (common) return Verdict{rank, first->code, first->reason, true};
  if (Seconds(now - first_failure_) < options_.agreement_seconds) return std::nullopt;
  return Verdict{rank, first->code == kCheckFailed ? kCheckFailed : kRankFailed,
                 absl::StrCat(first->name, " has failed: ", first->reason)};
}

std::optional<Verdict> FailureDetector::JudgeSigns(size_t rank, int64_t now) const {
  const Rank& r = ranks_[rank];
  if (r.left || r.failed) return std::nullopt;
  const int id = static_cast<int>(rank);
  if (r.closed) {
    return Verdict{id, kRankFailed,
                   absl::StrCat(r.name, " has ended without a word: killed, or crashed")};
  }
  if (Seconds(now - r.heard) > options_.silent_seconds) {
    return Verdict{id, kRankFailed,
                   absl::StrFormat("%s has given no sign of life for %.1f s: it is stopped, or its "
                                   "host cannot be reached",
                                   r.name, Seconds(now - r.heard))};
  }
  const double stuck = std::max(options_.stuck_seconds, options_.stuck_factor * Seconds(r.longest));
  const bool works = r.progress.state == RankState::kWorking && r.progress.completed > 0;
  if (works && Seconds(now - r.since) > stuck) {
    return Verdict{id, kRankFailed,
                   absl::StrFormat("%s hangs: it has completed nothing for %.1f s, and waits for "
                                   "nobody",
                                   r.name, Seconds(now - r.since))};
  }
  return std::nullopt;
}

}  // namespace partita
