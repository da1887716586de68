// Searches without a temperature: at random, and by a beam of the best strategies.
#include <algorithm>
#include <optional>
#include <random>
#include <utility>

#include "graph/support/status_macros.h"
#include "planner/search/walk.h"
#include "planner/space/moves.h"

namespace partita {
namespace {

constexpr size_t kBeamWidth = 8;
constexpr size_t kChildren = 8;  // proposals from each strategy of a beam

// Keeps the best of a beam, none twice.
void Narrow(std::vector<WalkPoint>& beam) {
  std::stable_sort(beam.begin(), beam.end());
  const auto same = [](const WalkPoint& a, const WalkPoint& b) {
    return a.time == b.time && a.strategy == b.strategy;
  };
  beam.erase(std::unique(beam.begin(), beam.end(), same), beam.end());
  if (beam.size() > kBeamWidth) beam.resize(kBeamWidth);
}

// Adds what the proposals from one strategy lead to. False where the search is to stop or nothing
// can be proposed.
bool AddChildren(const SearchProblem& problem, SearchState& state, std::mt19937_64& random,
                 const WalkPoint& parent, std::vector<WalkPoint>& beam) {
  const WalkPoint last = beam.size() < kBeamWidth ? WalkPoint() : beam[kBeamWidth - 1];
  const bool has_cutoff = beam.size() >= kBeamWidth && last.excess_memory == 0;
  if (state.Done()) return false;
  std::vector<Strategy> children(state.TrialsLeft(kChildren), parent.strategy);
  std::vector<const SearchMove*> moves;
  std::vector<SearchTrial> trials;
  for (Strategy& child : children) {
    const std::optional<Proposal> made = Propose(problem.space, parent.strategy, random);
    if (!made.has_value()) return false;
    Decide(state.graph(), child, made->decisions);
    moves.push_back(made->move);
    trials.push_back({&child, &parent.name, has_cutoff ? last.time : kNoCutoff});
  }
  const std::vector<Evaluation> evaluations = state.TryAll(trials);
  for (size_t k = 0; k < children.size(); ++k) {
    const Evaluation& evaluation = evaluations[k];
    if (evaluation.verdict == Evaluation::Verdict::kInterrupted) return false;
    if (evaluation.verdict == Evaluation::Verdict::kInvalid) continue;
    if (has_cutoff && evaluation.time > last.time) continue;
    beam.push_back(PointOf(parent.name, std::move(children[k]), evaluation, problem.evaluator));
    state.CountAccepted(0, parent.name, moves[k]->name, evaluation.time);
  }
  return true;
}

}  // namespace

absl::StatusOr<SearchResult> SearchBeam(const SearchProblem& problem,
                                        const SearchOptions& options) {
  SearchState state(problem, options);
  std::mt19937_64 random(options.seed);
  ASSIGN_OR_RETURN(std::vector<WalkPoint> beam,
                   EvaluateStarts(problem, options, state, {.most = kMostOfWalks}));
  if (problem.space.subjects().empty()) return state.Finish();
  for (int64_t round = 0; !beam.empty() && round < options.evaluations; ++round) {
    Narrow(beam);
    const std::vector<WalkPoint> parents = beam;
    for (const WalkPoint& parent : parents) {
      if (!AddChildren(problem, state, random, parent, beam)) return state.Finish();
    }
  }
  return state.Finish();
}

absl::StatusOr<SearchResult> SearchRandom(const SearchProblem& problem,
                                          const SearchOptions& options) {
  SearchState state(problem, options);
  RETURN_IF_ERROR(state.TryStarts());
  if (problem.space.subjects().empty()) return state.Finish();
  std::mt19937_64 random(options.seed);
  const std::string origin = "random";
  for (int64_t drawn = 0; drawn < options.evaluations && !state.Done();) {
    std::vector<Strategy> strategies(state.TrialsLeft(kMostTrials), problem.starts[0].strategy);
    const Nanos before = state.to_beat();
    std::vector<SearchTrial> trials;
    for (Strategy& strategy : strategies) {
      for (DecisionSubject subject : problem.space.subjects()) {
        Decide(state.graph(), strategy, problem.space.Random(subject, random));
      }
      trials.push_back({&strategy, &origin, before});
    }
    state.TryAll(trials);
    drawn += static_cast<int64_t>(trials.size());
    if (state.has_best() && state.best_time() < before) {
      state.CountAccepted(0, origin, "random", state.best_time());
    }
  }
  return state.Finish();
}

}  // namespace partita
