#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "planner/least_loads.h"
#include "planner/search/search_state.h"
#include "planner/space/moves.h"

namespace partita {

// A strategy that a search may go on from, evaluated.
struct WalkPoint {
  std::string name;  // of the start that it came from
  Strategy strategy;
  Nanos time;
  double excess_memory = 0;  // where it does not fit, in memories of one device; 0: it fits

  // Strategies that fit come first, then those with the least excess memory.
  friend bool operator<(const WalkPoint& a, const WalkPoint& b) {
    return a.excess_memory == b.excess_memory ? a.time < b.time : a.excess_memory < b.excess_memory;
  }
};

// The devices, counted from the first, that the strategy's operators are on.
int DevicesOf(const Graph& graph, const Strategy& strategy);

// The point of an evaluated strategy.
WalkPoint PointOf(std::string name, Strategy strategy, const Evaluation& evaluation,
                  const Evaluator& evaluator);

// The fastest of so many strategies that are faster than the point, under its name; nullopt where none
// is. Adds whether the search goes on: otherwise not all were tried.
struct Fastest {
  std::optional<WalkPoint> point;
  bool goes_on = true;
};
Fastest FastestOf(size_t count, absl::FunctionRef<Strategy(size_t number)> make,
                  const WalkPoint& point, const SearchProblem& problem, SearchState& state);

// The same of strategies that were evaluated, each up to the point's time; they are counted here.
Fastest FastestOfEvaluated(absl::FunctionRef<Strategy(size_t number)> make,
                           std::span<const Evaluation> evaluations, const WalkPoint& point,
                           const SearchProblem& problem, SearchState& state);

// Evaluates a start up to the cutoff; adds it unless it is invalid or beyond. False where it was
// interrupted.
bool AddStart(const SearchProblem& problem, NamedStrategy start, Nanos cutoff, SearchState& state,
              std::vector<WalkPoint>& points);

// StartRules::most of walks that go where they begin, and of those that soon go on from the best of all.
inline constexpr double kMostOfWalks = 3, kMostOfGatheredWalks = 1.5;
// Rules by which EvaluateStarts leaves starts out and puts them off.
struct StartRules {
  // Starts that take so many times the best before them, or more, are left out.
  double most = kMostOfWalks;
  // Whether there are random starts, as many as the options say.
  bool has_random = true;
  // Gets the given starts that are behind others on fewer devices, or not known there, instead of their
  // being tried; null: all are.
  std::vector<NamedStrategy>* put_off = nullptr;
  // Looks for what is faster than starts on fewer devices, which `points` are by then and to which it
  // adds; `near`: names of those that are not behind there. True: it found some, and all given starts
  // are put off. Not without put_off; may be empty.
  std::function<bool(const std::vector<std::string>& near, std::vector<WalkPoint>& points)> look =
      nullptr;
};
// All starts that can run, the given ones first, whatever the budget (once one fits, as many as time
// limit and `stop` leave); then random ones as far as it goes, where the whole space is free. The
// best comes first. InvalidArgument if none is given.
absl::StatusOr<std::vector<WalkPoint>> EvaluateStarts(const SearchProblem& problem,
                                                      const SearchOptions& options,
                                                      SearchState& state, const StartRules& rules);
// Starts and dynamic programming are tried on so many times fewer devices, then on so many times
// fewer again.
inline constexpr int kFewerDevices = 4;

// A walk through the space by its moves (planner/space/moves.h), one evaluation a step. One that
// starts outside memory goes down in what is excess until it fits, and never leaves memory again.
// Problem and state outlive it.
class Walk {
 public:
  // `number`: of the walk, for progress and its own random numbers.
  Walk(const SearchProblem& problem, const SearchOptions& options, SearchState& state, int number,
       WalkPoint start)
      : problem_(problem),
        state_(state),
        number_(number),
        random_(options.seed * 1000003 + static_cast<uint64_t>(number)) {
    GoTo(std::move(start));
  }

  const WalkPoint& at() const { return at_; }
  void GoTo(WalkPoint point);

  // The time up to which a step is accepted at random: the walk's, and what a Metropolis step adds
  // that accepts a time longer by x units with exp(-beta * x).
  Nanos DrawLimit(double beta, Nanos unit);

  struct Outcome {
    bool ended = false;     // no move is left, or the search is to stop
    bool improved = false;  // the search's best, or memory that does not fit
  };
  // Proposes a step and takes it where its time is at most `limit`.
  Outcome Step(Nanos limit);

  // A step that was made and may not be told yet.
  struct MadeStep {
    Evaluation evaluation;
    std::optional<Strategy> strategy;      // where it may be the search's best
    const SearchMove* accepted = nullptr;  // the move, if it was taken
    Nanos time;                            // of the walk behind it
  };
  // The same in two parts. MakeStep changes the walk alone: several walks may at the same time, while
  // nothing is told; nullopt where the walk has ended. Tell: each step once, in their order, before
  // GoTo.
  std::optional<MadeStep> MakeStep(Nanos limit);
  void Tell(const MadeStep& step);

 private:
  const SearchProblem& problem_;
  SearchState& state_;
  int number_;
  WalkPoint at_;
  // The least time under the name of at_ that the search knows, or will when it is told.
  Nanos least_;
  std::mt19937_64 random_;
};

}  // namespace partita
