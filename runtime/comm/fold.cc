#include "runtime/comm/fold.h"

#include <algorithm>
#include <cstring>

namespace partita {
namespace {

template <class T>
void Combine(Reduction reduction, T* sum, const T* next, int64_t count) {
  if (reduction == Reduction::kSum) {
    for (int64_t i = 0; i < count; ++i) sum[i] += next[i];
  } else {
    for (int64_t i = 0; i < count; ++i) sum[i] = sum[i] < next[i] ? next[i] : sum[i];
  }
}

template <class T>
void FoldTyped(Reduction reduction, const std::vector<const void*>& values, void* into,
               int64_t count) {
  constexpr int64_t kChunk = 2048;
  T sum[kChunk];
  for (int64_t begin = 0; begin < count; begin += kChunk) {
    const int64_t n = std::min(kChunk, count - begin);
    std::memcpy(sum, static_cast<const T*>(values[0]) + begin, static_cast<size_t>(n) * sizeof(T));
    for (size_t k = 1; k < values.size(); ++k) {
      Combine(reduction, sum, static_cast<const T*>(values[k]) + begin, n);
    }
    std::memcpy(static_cast<T*>(into) + begin, sum, static_cast<size_t>(n) * sizeof(T));
  }
}

}  // namespace

void Fold(DType dtype, Reduction reduction, const std::vector<const void*>& values, void* into,
          int64_t count) {
  switch (dtype) {
    case DType::kFloat32:
      return FoldTyped<float>(reduction, values, into, count);
    case DType::kFloat64:
      return FoldTyped<double>(reduction, values, into, count);
    case DType::kInt32:
      return FoldTyped<int32_t>(reduction, values, into, count);
    case DType::kRing64:
      if (reduction == Reduction::kMax) return FoldTyped<int64_t>(reduction, values, into, count);
      return FoldTyped<uint64_t>(reduction, values, into, count);
  }
}

void FoldTwo(const MessagePort::Combine& combine, void* into, const void* arrived, int64_t bytes) {
  std::vector<const void*> values{into, arrived};
  if (!combine.own_first) std::swap(values[0], values[1]);
  Fold(combine.dtype, combine.reduction, values, into, bytes / SizeOf(combine.dtype));
}

size_t StepsOfRange(std::span<const CollectiveStep> steps) {
  size_t count = 1;
  if (steps[0].action == StepAction::kCopy) return count;
  while (count < steps.size() && steps[count].destination() == steps[0].destination()) ++count;
  return count;
}

}  // namespace partita
