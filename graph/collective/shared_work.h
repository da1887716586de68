#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "graph/collective/schedule.h"

namespace partita {

// Combined rounds of a collective in place, for ranks that reach each other's buffers: the result
// of the rounds for every element, and the rank that computes it. The sums are those of the
// schedule, in its order, so results are the same bit for bit as round by round.

// Value of an element on one rank before the rounds, or the sum (or maximum) of several such
// values.
struct SharedValue {
  int rank = -1;                    // rank of the collective; or -1:
  std::vector<SharedValue> folded;  // two and more, in this order

  friend bool operator==(const SharedValue&, const SharedValue&) = default;
};

// Elements that one rank computes for all: it reads those of all ranks, and only then stores the
// results.
struct SharedPiece {
  int worker = 0;
  ElementRange range;
  struct Result {
    SharedValue value;
    std::vector<int> ranks;  // ranks into whose buffers it goes, ascending
  };
  std::vector<Result> results;
};

// Rounds [first, last) of `schedule`, of a collective in place that is valid, for the ranks
// `together`, ascending: steps of these rounds at one of them stay among them. What later rounds or
// the collective's result want is in every buffer after them; elsewhere there may be other values
// than the rounds leave. Pieces do not overlap; ranks that want a result share its work evenly.
std::vector<SharedPiece> SharedWork(const Collective& collective,
                                    const CollectiveSchedule& schedule, size_t first, size_t last,
                                    std::span<const int> together);

}  // namespace partita
