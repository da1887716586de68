#pragma once

#include <cstdint>
#include <vector>

#include "planner/bound/least_prices.h"
#include "planner/bound/operator_splits.h"
#include "planner/bound/subject.h"

namespace partita {

// A time that no step is shorter than, in nanoseconds: what compute lanes do in sum, divided by the
// number of those that work at the same time.
//
// An element of a tensor that several operators add to is the sum of a term of each. Every addition
// is either a move on a compute lane or done with what arrives over a communication lane. Terms that
// lie on one device are added there; so at most as many additions of an element as there are other
// devices go with arrivals. Which do is chosen so that the larger of both sums is least: bytes that
// arrive keep communication lanes busy.
int64_t LeastWorkTime(const BoundSubject& subject, SplitFinder& finder, const LeastPrices& prices);

// The largest sum of a time and of what is not done earlier, divided by the number of devices that
// compute at once. Of additions only those count that no arrival does. `heads`: LeastPath::heads.
int64_t LateWorkTime(const BoundSubject& subject, SplitFinder& finder, const LeastPrices& prices,
                     const std::vector<int64_t>& heads);

}  // namespace partita
