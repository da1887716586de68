#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/search/walk.h"

namespace partita {

// Cuts the stages of a strategy that fits (planner/space/stage_moves.h) in two, at several
// places each, and shifts where one ends and the next begins: again from the fastest of these until a
// whole round improves nothing, or after so many evaluations. Returns the last. No chance is in it.
WalkPoint ImproveStages(const SearchProblem& problem, SearchState& state, WalkPoint from,
                        int64_t budget);

// Does so for the best point, and for the best on all devices where it is near: halves of these may be
// faster than those of what is faster on fewer. Not for points that take `known` or longer. Adds what
// it finds. The points are, and stay, the best first.
void AddStages(const SearchProblem& problem, SearchState& state, Nanos known,
               std::vector<WalkPoint>& points);

// The best start, changed by AddStages. Declined where that is not far faster: other searches may
// find more then.
absl::StatusOr<SearchResult> SearchStages(const SearchProblem& problem,
                                          const SearchOptions& options);

}  // namespace partita
