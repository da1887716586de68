#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/collective/schedule.h"
#include "graph/tensor.h"
#include "runtime/comm/message_port.h"

namespace partita {

// Reduction of elements of a type. Sums of ring elements wrap; their maximum compares them as
// signed.
struct TypedReduction {
  DType dtype = DType::kFloat32;
  Reduction reduction = Reduction::kSum;
};

// out = left (+) right, elementwise; `out` may be one of them.
void Combine(const TypedReduction& how, const void* left, const void* right, void* out,
             int64_t count);

// into = values[0] (+) values[1] (+) ..., in that order, elementwise; `into` may be one of them.
void Fold(const TypedReduction& how, const std::vector<const void*>& values, void* into,
          int64_t count);

// The `bytes` at `into` and those that have arrived, elementwise, as `reduce` says.
void FoldTwo(const MessagePort::Reduce& reduce, void* into, const void* arrived, int64_t bytes);

// The first of `steps` (a rank's receives, at least one) and those after it that fold into the
// same range: how many.
size_t StepsOfRange(std::span<const CollectiveStep> steps);

// Calls visit(range, index of its first step) for the ranges of a rank's receives, one by one.
template <class Visit>
void ForEachRange(std::span<const CollectiveStep> steps, Visit&& visit) {
  for (size_t first = 0; first < steps.size();) {
    const auto range = steps.subspan(first, StepsOfRange(steps.subspan(first)));
    visit(range, first);
    first += range.size();
  }
}

// Operands that fold into the range of `steps` (as counted above), in ascending order of ranks: the
// values that have arrived, arrival(k) for steps[k], and the rank's own value at its place, unless
// they copy.
template <class Arrival>
std::vector<const void*> ValuesInOrder(std::span<const CollectiveStep> steps, const void* own,
                                       Arrival&& arrival) {
  std::vector<const void*> values;
  bool own_used = steps[0].action == StepAction::kCopy;
  for (size_t k = 0; k < steps.size(); ++k) {
    if (!own_used && steps[k].from > steps[k].to) {
      values.push_back(own);
      own_used = true;
    }
    values.push_back(arrival(k));
  }
  if (!own_used) values.push_back(own);
  return values;
}

}  // namespace partita
