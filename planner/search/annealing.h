#pragma once

#include <cstdint>
#include <vector>

#include "planner/search/walk.h"

namespace partita {

// Points where walks begin, the best first; how many evaluations they may use, or as many proposals; and
// which of several rounds it is, which have random numbers of their own.
struct AnnealingRound {
  const std::vector<WalkPoint>& points;
  int64_t budget = 0;
  int number = 0;
};

// Simulated annealing from several points (Kirkpatrick, Gelatt, Vecchi, Science 1983) until the
// search is done or the budget is used. Walks from the best points take turns, a step each. A step
// that is longer by the fraction x of the best point's time is accepted with exp(-x / T); T falls
// geometrically with the part of the budget that is used. A walk that has fallen behind goes on
// from the best of these walks.
void Anneal(const SearchProblem& problem, const SearchOptions& options, SearchState& state,
            const AnnealingRound& round);

}  // namespace partita
