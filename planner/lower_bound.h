#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

#include "graph/support/strong_int.h"
#include "planner/evaluator.h"

namespace partita {

// A time that no step of a graph on a machine is shorter than, by the evaluator's cost model: the
// larger of two. Both hold for every schedule, whatever the durations under contention, and take
// kernels only, each at its least price over the devices and the formats of its tensors and, where
// it may be fused, as cheap as the kernel that does it with others (0 where that does others first).
// Communication, moves and the updates of weights count nothing: one device does without the first
// two, and layouts decide the third.
//   path: the longest path through the graph, where an operator takes what the least of its parts
//     takes under the split that makes that least: a part waits for some part of each operator
//     that makes all of what it reads;
//   work: what the parts of every anchor and its followers take in sum, under the split that makes
//     the sum least, over the devices that can compute at once.
struct LowerBound {
  Nanos path, work;
  // Whether all splits were looked at into as many parts as the space draws: twice the devices.
  // Where that is more than kMostParts, only those into kFewParts parts were, and those of two loops
  // by divisors of the devices: a step with other splits may be shorter.
  bool is_complete = false;

  Nanos time() const { return std::max(path, work); }
};

inline constexpr int64_t kMostParts = 16, kFewParts = 8;

// Nothing is known (0) if `interrupted`, which may be empty, becomes true meanwhile.
LowerBound LowerBoundOf(const Evaluator& evaluator,
                        const std::function<bool()>& interrupted = nullptr);

// The part of `time` by which it exceeds the bound, in [0, 1]; 1 without a bound.
double GapOf(Nanos time, Nanos bound);

}  // namespace partita
