// Markov chain Monte Carlo over strategies (FlexFlow, MLSys 2019, section 6): p(S) ~ exp(-beta *
// cost(S)). A proposal changes one operator, sometimes a run of neighbours at once; it is accepted
// if its cost is at most the current cost - ln(u) / beta, u uniform. Costs are relative to the best
// start, so beta has no unit. The threshold is drawn before the evaluation, which may stop as soon
// as it is passed. Starts share the budget; a start ends when its share is used or the best has not
// improved for half of it.
#include <cmath>
#include <random>

#include "planner/search/search_state.h"

namespace partita {
namespace {

class Chain {
 public:
  Chain(const SearchProblem& problem, const SearchOptions& options, SearchState& state)
      : problem_(problem), options_(options), state_(state), free_(FreeOperators(problem)) {}

  void Run(int start, const NamedStrategy& from, int64_t budget, Nanos unit, uint64_t seed) {
    std::mt19937_64 random(seed);
    Strategy current = from.strategy;
    Evaluation evaluation = state_.Try(current, from.name);
    if (evaluation.verdict == Evaluation::Verdict::kInvalid) return;
    // A start that does not fit in memory may still lead to one that does.
    Nanos cost = evaluation.feasible() ? evaluation.time : evaluation.time * 4;
    int64_t since_best = 0;
    for (int64_t step = 1; step < budget && since_best < (budget + 1) / 2; ++step) {
      if (state_.Done()) return;
      const double u = (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53;
      const double slack = -std::log(u) / options_.beta * static_cast<double>(unit.value());
      const Nanos limit(cost.value() + static_cast<int64_t>(std::min(
                                           slack, 9e17 - static_cast<double>(cost.value()))));
      Strategy proposal = current;
      Propose(proposal, random);
      const bool had_best = state_.has_best();
      const Nanos best_before = had_best ? state_.best_time() : Nanos(0);
      evaluation = state_.Try(proposal, from.name, limit);
      const bool improved = state_.has_best() && (!had_best || state_.best_time() < best_before);
      since_best = improved ? 0 : since_best + 1;
      if (!evaluation.feasible() || evaluation.time > limit) continue;
      current = std::move(proposal);
      cost = evaluation.time;
      state_.CountAccepted(start, from.name, cost);
    }
  }

 private:
  // A new configuration for one operator; one time in four the operators behind it follow suit as
  // far as the configuration fits them, which single steps could not reach through the cost of the
  // mismatch.
  void Propose(Strategy& strategy, std::mt19937_64& random) const {
    const size_t place = random() % free_.size();
    const OpId op = free_[place];
    ParallelConfig config = problem_.space.Random(op, random);
    if (random() % 3 == 0) {
      const OpId other = free_[random() % free_.size()];
      const auto copied = Transplant(problem_.space, other, strategy.configs[other.index()], op);
      if (copied.has_value()) config = *copied;
    }
    strategy.configs[op.index()] = config;
    if (random() % 4 != 0) return;
    const size_t length = 1 + random() % 6;
    for (size_t k = place + 1; k < std::min(free_.size(), place + 1 + length); ++k) {
      const auto copied = Transplant(problem_.space, op, config, free_[k]);
      if (!copied.has_value()) break;
      strategy.configs[free_[k].index()] = *copied;
    }
  }

  const SearchProblem& problem_;
  const SearchOptions& options_;
  SearchState& state_;
  const std::vector<OpId> free_;
};

}  // namespace

absl::StatusOr<SearchResult> SearchMcmc(const SearchProblem& problem,
                                        const SearchOptions& options) {
  SearchState state(problem, options);
  std::vector<NamedStrategy> starts = problem.starts;
  std::mt19937_64 random(options.seed);
  for (int k = 0; k < options.random_starts && problem.free.empty(); ++k) {
    starts.push_back({"random", problem.space.RandomStrategy(random)});
  }
  // All starts first: their best is the unit of cost, and a tiny budget still returns the best of
  // them.
  Nanos unit(std::numeric_limits<int64_t>::max());
  for (const NamedStrategy& start : starts) {
    const Evaluation evaluation = state.Try(start.strategy, start.name);
    if (evaluation.verdict != Evaluation::Verdict::kInvalid) unit = std::min(unit, evaluation.time);
  }
  Chain chain(problem, options, state);
  if (!FreeOperators(problem).empty()) {
    for (size_t k = 0; k < starts.size() && !state.Done(); ++k) {
      const int64_t left = options.evaluations - state.evaluations();
      const int64_t share = left / static_cast<int64_t>(starts.size() - k);
      chain.Run(static_cast<int>(k), starts[k], share, unit, options.seed * 1000003 + k);
    }
  }
  return state.Finish();
}

}  // namespace partita
