#include "planner/search/walk.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "graph/support/status_macros.h"

namespace partita {

WalkPoint PointOf(std::string name, Strategy strategy, const Evaluation& evaluation,
                  const Evaluator& evaluator) {
  WalkPoint point{std::move(name), std::move(strategy), evaluation.time};
  if (evaluation.verdict != Evaluation::Verdict::kOutOfMemory) return point;
  for (size_t d = 0; d < evaluation.peak.size(); ++d) {
    const Bytes memory = evaluator.MemoryOf(DeviceId(static_cast<int32_t>(d)));
    if (evaluation.peak[d] <= memory) continue;
    point.excess_memory += static_cast<double>((evaluation.peak[d] - memory).value()) /
                           std::max(1.0, static_cast<double>(memory.value()));
  }
  return point;
}

absl::StatusOr<std::vector<WalkPoint>> EvaluateStarts(const SearchProblem& problem,
                                                      const SearchOptions& options,
                                                      SearchState& state) {
  RETURN_IF_ERROR(state.NeedStarts());
  std::vector<NamedStrategy> named = problem.starts;
  std::mt19937_64 random(options.seed);
  for (int k = 0; k < options.random_starts && problem.space.whole(); ++k) {
    named.push_back({"random", problem.space.RandomStrategy(random)});
  }
  std::vector<WalkPoint> starts;
  for (size_t k = 0; k < named.size(); ++k) {
    if (k == problem.starts.size()) state.StartsAreTried();
    if (k >= problem.starts.size() && state.Done()) break;
    NamedStrategy& start = named[k];
    const Nanos cutoff = state.has_best() ? state.best_time() * kFarBehind : kNoCutoff;
    const Evaluation evaluation = state.Try(start.strategy, start.name, cutoff);
    if (evaluation.verdict == Evaluation::Verdict::kInterrupted) break;
    if (evaluation.verdict == Evaluation::Verdict::kInvalid) continue;
    if (evaluation.feasible() && evaluation.peak.empty()) continue;  // beyond the cutoff
    starts.push_back(
        PointOf(std::move(start.name), std::move(start.strategy), evaluation, problem.evaluator));
  }
  state.StartsAreTried();
  std::stable_sort(starts.begin(), starts.end());
  return starts;
}

Nanos Walk::DrawLimit(double beta, Nanos unit) {
  const double u = (static_cast<double>(random_() >> 11) + 0.5) * 0x1p-53;
  const double slack = -std::log(u) / beta * static_cast<double>(unit.value());
  return at_.time + Nanos(static_cast<int64_t>(std::clamp(slack, 0.0, 4e18)));
}

Walk::Outcome Walk::Step(Nanos limit) {
  const std::optional<Trial> trial = ProposeStep(limit);
  if (!trial.has_value()) return {.ended = true};
  return TakeStep(state_.Try(*trial->strategy, *trial->origin, trial->cutoff));
}

std::optional<Trial> Walk::ProposeStep(Nanos limit) {
  const std::optional<Proposal> made = Propose(problem_.space, at_.strategy, random_);
  if (!made.has_value()) return std::nullopt;
  proposed_ = at_.strategy;
  Decide(state_.graph(), proposed_, made->decisions);
  move_ = made->move;
  limit_ = limit;
  best_before_ = state_.has_best() ? state_.best_time() : kNoCutoff;
  return Trial{&proposed_, &at_.name, at_.excess_memory == 0 ? limit : kNoCutoff};
}

Walk::Outcome Walk::TakeStep(const Evaluation& evaluation) {
  if (evaluation.verdict == Evaluation::Verdict::kInterrupted) return {.ended = true};
  Outcome outcome;
  outcome.improved = state_.has_best() && state_.best_time() < best_before_;
  if (evaluation.verdict == Evaluation::Verdict::kInvalid) return outcome;
  WalkPoint to = PointOf(at_.name, std::move(proposed_), evaluation, problem_.evaluator);
  if (to.excess_memory > at_.excess_memory) return outcome;
  if (to.excess_memory == at_.excess_memory && to.time > limit_) return outcome;
  outcome.improved |= to.excess_memory < at_.excess_memory;
  at_ = std::move(to);
  state_.CountAccepted(number_, at_.name, move_->name, at_.time);
  return outcome;
}

}  // namespace partita
