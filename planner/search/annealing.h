#pragma once

#include <cstdint>
#include <vector>

#include "planner/search/walk.h"

namespace partita {

// Simulated annealing from several points (Kirkpatrick, Gelatt, Vecchi, Science 1983) until the
// search is done or has used `budget` more evaluations, or as many proposals. Walks from the best
// points take turns, a step each. A step that is longer by the fraction x of the best point's time
// is accepted with exp(-x / T); T falls geometrically with the part of the budget that is used. A
// walk that has fallen behind goes on from the best of these walks. Rounds differ in their random
// numbers.
void Anneal(const SearchProblem& problem, const SearchOptions& options, SearchState& state,
            const std::vector<WalkPoint>& points, int64_t budget, int round = 0);

}  // namespace partita
