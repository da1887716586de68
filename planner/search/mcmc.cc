// Markov chain Monte Carlo over strategies (FlexFlow, MLSys 2019, section 6): p(S) ~ exp(-beta *
// cost(S)). A proposal is one of the search space's moves (planner/space/moves.h); it is accepted
// if its cost is at most the current cost - ln(u) / beta, u uniform. Costs are relative to the best
// start, so beta has no unit. The threshold is drawn before the evaluation, which may stop as soon
// as it is passed. Starts take turns, the cheapest first, each with a third of what is left of the
// budget; a chain ends when its share is used or the best has not improved for half of it. What is
// left in the end goes to chains from the best.
#include <algorithm>
#include <cmath>
#include <optional>
#include <random>

#include "planner/search/search_state.h"
#include "planner/space/moves.h"

namespace partita {
namespace {

// What is excess_memory where a strategy does not fit, in memories of one device; 0: it fits.
double ExcessMemoryOf(const Evaluation& evaluation, const Evaluator& evaluator) {
  if (evaluation.verdict != Evaluation::Verdict::kOutOfMemory) return 0;
  double excess_memory = 0;
  for (size_t d = 0; d < evaluation.peak.size(); ++d) {
    const Bytes memory = evaluator.MemoryOf(DeviceId(static_cast<int32_t>(d)));
    if (evaluation.peak[d] <= memory) continue;
    excess_memory += static_cast<double>((evaluation.peak[d] - memory).value()) /
                     std::max(1.0, static_cast<double>(memory.value()));
  }
  return excess_memory;
}

// A strategy that a chain may go on from.
struct Start {
  std::string name;
  Strategy strategy;
  Nanos time;
  double excess_memory = 0;

  // Strategies that fit come first, then those with the least excess memory.
  friend bool operator<(const Start& a, const Start& b) {
    return a.excess_memory == b.excess_memory ? a.time < b.time : a.excess_memory < b.excess_memory;
  }
};

class Chain {
 public:
  Chain(const SearchProblem& problem, const SearchOptions& options, SearchState& state)
      : problem_(problem), options_(options), state_(state) {}

  // `unit`: the time that costs are relative to. A chain that starts outside memory goes down in
  // what is excess_memory until it fits, and never leaves memory again.
  void Run(int number, Start current, int64_t budget, Nanos unit) {
    std::mt19937_64 random(options_.seed * 1000003 + static_cast<uint64_t>(number));
    int64_t since_best = 0;
    for (int64_t step = 0; step < budget && since_best < (budget + 1) / 2; ++step) {
      if (state_.Done()) return;
      const Nanos limit = LimitAbove(current.time, unit, random);
      const std::optional<Proposal> made = Propose(problem_.space, current.strategy, random);
      if (!made.has_value()) return;
      Start proposal = current;
      Decide(state_.graph(), proposal.strategy, made->decisions);
      const bool had_best = state_.has_best();
      const Nanos best_before = had_best ? state_.best_time() : Nanos(0);
      const bool fits = current.excess_memory == 0;
      const Evaluation evaluation = fits ? state_.Try(proposal.strategy, current.name, limit)
                                         : state_.Try(proposal.strategy, current.name);
      ++since_best;
      if (state_.has_best() && (!had_best || state_.best_time() < best_before)) since_best = 0;
      if (evaluation.verdict == Evaluation::Verdict::kInterrupted) return;
      if (evaluation.verdict == Evaluation::Verdict::kInvalid) continue;
      proposal.time = evaluation.time;
      proposal.excess_memory = ExcessMemoryOf(evaluation, problem_.evaluator);
      if (proposal.excess_memory > current.excess_memory) continue;
      if (proposal.excess_memory == current.excess_memory && proposal.time > limit) continue;
      if (proposal.excess_memory < current.excess_memory) since_best = 0;
      current = std::move(proposal);
      state_.CountAccepted(number, current.name, made->move->name, current.time);
    }
  }

 private:
  Nanos LimitAbove(Nanos cost, Nanos unit, std::mt19937_64& random) const {
    const double u = (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53;
    const double slack = -std::log(u) / options_.beta * static_cast<double>(unit.value());
    return cost + Nanos(static_cast<int64_t>(std::clamp(slack, 0.0, 4e18)));
  }

  const SearchProblem& problem_;
  const SearchOptions& options_;
  SearchState& state_;
};

// All starts that can run, the given ones first, whatever the budget; random ones as far as it
// goes. Their best is the unit of cost.
std::vector<Start> EvaluateStarts(const SearchProblem& problem, const SearchOptions& options,
                                  SearchState& state) {
  std::vector<NamedStrategy> named = problem.starts;
  std::mt19937_64 random(options.seed);
  for (int k = 0; k < options.random_starts && problem.space.whole(); ++k) {
    named.push_back({"random", problem.space.RandomStrategy(random)});
  }
  std::vector<Start> starts;
  for (size_t k = 0; k < named.size(); ++k) {
    if (k == problem.starts.size()) state.StartsAreTried();
    if (k >= problem.starts.size() && state.Done()) break;
    NamedStrategy& start = named[k];
    const Evaluation evaluation = state.Try(start.strategy, start.name);
    if (evaluation.verdict == Evaluation::Verdict::kInterrupted) break;
    if (evaluation.verdict == Evaluation::Verdict::kInvalid) continue;
    starts.push_back({std::move(start.name), std::move(start.strategy), evaluation.time,
                      ExcessMemoryOf(evaluation, problem.evaluator)});
  }
  state.StartsAreTried();
  return starts;
}

}  // namespace

absl::StatusOr<SearchResult> SearchMcmc(const SearchProblem& problem,
                                        const SearchOptions& options) {
  if (problem.starts.empty()) {
    return absl::InvalidArgumentError("a search needs a strategy to start from");
  }
  SearchState state(problem, options);
  std::vector<Start> starts = EvaluateStarts(problem, options, state);
  std::stable_sort(starts.begin(), starts.end());
  if (problem.space.subjects().empty()) return state.Finish();
  Chain chain(problem, options, state);
  const Nanos unit = starts.empty() ? Nanos(1) : starts[0].time;
  int number = 0;
  for (const Start& start : starts) chain.Run(number++, start, (state.left() + 2) / 3, unit);
  for (int64_t before = -1; !starts.empty() && !state.Done() && state.evaluations() != before;) {
    before = state.evaluations();
    const Start from =
        state.has_best() ? Start{state.origin(), state.best(), state.best_time()} : starts[0];
    chain.Run(number++, from, state.left(), unit);
  }
  return state.Finish();
}

}  // namespace partita
