#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

#include "graph/support/strong_int.h"
#include "planner/evaluator.h"

namespace partita {

// A time that no step of a graph on a machine is shorter than, by the evaluator's cost model: the
// largest of three. All hold for every schedule, whatever the durations under contention. Each task
// counts at its least price over the devices and the formats of its tensors and, where it may be
// fused, no more than the kernel that does it with others.
//   path: the longest path through the graph, with what has to travel along it (LeastPath);
//   work: what must be done on compute lanes, over the devices that can compute at once: the parts
//     of every anchor and its followers under the split that makes their sum least, updates, and
//     additions of terms that no communication does instead (LeastWorkTime), loads;
//   late: likewise the work of all that starts late, after the earliest time at which any of it may.
// Memory, moves that bring tensors into other boxes, and the synchronisation of weights count
// nothing: there are strategies without each of these.
struct LowerBound {
  Nanos path, work, late;
  // Whether all splits were looked at into as many parts as the space draws: twice the devices.
  // Where that is more than kMostParts, only those into kFewParts parts were, and those of two loops
  // by divisors of the devices: a step with other splits may be shorter.
  bool is_complete = false;

  Nanos time() const { return std::max({path, work, late}); }
};

inline constexpr int64_t kMostParts = 16, kFewParts = 8;

// Nothing is known (0) if `interrupted`, which may be empty, becomes true meanwhile.
LowerBound LowerBoundOf(const Evaluator& evaluator,
                        const std::function<bool()>& interrupted = nullptr);

// The part of `time` by which it exceeds the bound, in [0, 1]; 1 without a bound.
double GapOf(Nanos time, Nanos bound);

}  // namespace partita
