#include "planner/search/search_state.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"

namespace partita {

Evaluation SearchState::Try(const Strategy& strategy, const std::string& origin, Nanos cutoff) {
  const auto interrupted = [this] {
    return (starts_tried_ || has_best_) && (Stopped() || TimeIsUp());
  };
  Evaluation evaluation = problem_.evaluator.EvaluateBriefly(strategy, cutoff, interrupted);
  if (evaluation.verdict == Evaluation::Verdict::kInterrupted) return evaluation;
  if (evaluation.verdict == Evaluation::Verdict::kInvalid) {
    invalid_ = evaluation.reason;
    return evaluation;
  }
  ++result_.evaluations;
  if (evaluation.verdict == Evaluation::Verdict::kOutOfMemory &&
      (nearest_miss_.empty() || evaluation.excess < smallest_excess_)) {
    nearest_miss_ = evaluation.reason;
    smallest_excess_ = evaluation.excess;
  }
  // Where the evaluation stopped early the peak is missing: it is no candidate for the best.
  const bool whole = evaluation.feasible() && !evaluation.peak.empty();
  if (whole) NoteByOrigin(strategy, origin, evaluation.time);
  if (whole && (!has_best_ || evaluation.time < result_.evaluation.time)) {
    result_.best = strategy;
    result_.evaluation = evaluation;
    result_.origin = origin;
    result_.locally_optimal = false;
    has_best_ = true;
  }
  return evaluation;
}

void SearchState::NoteByOrigin(const Strategy& strategy, const std::string& origin, Nanos time) {
  auto& found = result_.by_origin;
  const auto it = std::find_if(found.begin(), found.end(),
                               [&](const FoundStrategy& one) { return one.found.name == origin; });
  if (it == found.end()) {
    found.push_back({{origin, strategy}, time});
  } else if (time < it->time) {
    *it = {{origin, strategy}, time};
  }
}

absl::Status SearchState::NeedStarts() const {
  if (!problem_.starts.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("a search needs a strategy to start from");
}

absl::Status SearchState::TryStarts() {
  RETURN_IF_ERROR(NeedStarts());
  for (const NamedStrategy& start : problem_.starts) Try(start.strategy, start.name);
  starts_tried_ = true;
  return absl::OkStatus();
}

bool SearchState::Done() {
  if (result_.evaluations >= options_.evaluations) return true;
  if (problem_.bound.is_complete && has_best_ && best_time() <= problem_.bound.time()) return true;
  if (Stopped()) result_.interrupted = true;
  if (TimeIsUp()) result_.interrupted = true;
  return result_.interrupted;
}

void SearchState::CountAccepted(int start, const std::string& name, const std::string& move,
                                Nanos current) {
  ++result_.accepted;
  if (options_.progress) {
    options_.progress({result_.evaluations, start, name, move, current, result_.evaluation.time,
                       problem_.bound.time()});
  }
}

absl::StatusOr<SearchResult> SearchState::Finish() {
  result_.seconds = Seconds();
  if (!has_best_) {
    if (Stopped()) {
      return InterruptedError(absl::StrCat("interrupted before a strategy that fits was found; ",
                                           result_.evaluations, " were tried"));
    }
    if (nearest_miss_.empty()) return absl::InvalidArgumentError(invalid_);
    const bool is_limited = problem_.evaluator.options().memory_limit > Bytes(0);
    return MemoryError(absl::StrCat("none of ", result_.evaluations,
                                    " strategies fits in memory. The nearest: ", nearest_miss_,
                                    ". Use more or larger devices, or a smaller batch",
                                    is_limited ? ", or raise --memory_limit" : ""));
  }
  return std::move(result_);
}

}  // namespace partita
