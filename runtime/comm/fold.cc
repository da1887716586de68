#include "runtime/comm/fold.h"

#include <algorithm>
#include <cstring>

namespace partita {
namespace {

// `out` may be `left` or `right`, which is no dependence between turns of the loop.
template <class T>
void CombineTyped(Reduction reduction, const void* left_values, const void* right_values,
                  void* out_values, int64_t count) {
  const auto* left = static_cast<const T*>(left_values);
  const auto* right = static_cast<const T*>(right_values);
  auto* out = static_cast<T*>(out_values);
  if (reduction == Reduction::kSum) {
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) out[i] = left[i] + right[i];
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) out[i] = left[i] < right[i] ? right[i] : left[i];
  }
}

}  // namespace

void Combine(const TypedReduction& how, const void* left, const void* right, void* out,
             int64_t count) {
  switch (how.dtype) {
    case DType::kFloat32:
      return CombineTyped<float>(how.reduction, left, right, out, count);
    case DType::kFloat64:
      return CombineTyped<double>(how.reduction, left, right, out, count);
    case DType::kInt32:
      return CombineTyped<int32_t>(how.reduction, left, right, out, count);
    case DType::kRing64:
      if (how.reduction == Reduction::kMax) {
        return CombineTyped<int64_t>(how.reduction, left, right, out, count);
      }
      return CombineTyped<uint64_t>(how.reduction, left, right, out, count);
  }
}

void Fold(const TypedReduction& how, const std::vector<const void*>& values, void* into,
          int64_t count) {
  constexpr int64_t kBlock = 8192;  // bytes
  alignas(64) char sum[kBlock];
  const int64_t size = SizeOf(how.dtype);
  const int64_t block = kBlock / size;
  const auto at = [size](const void* values, int64_t begin) {
    return static_cast<const char*>(values) + begin * size;
  };
  for (int64_t begin = 0; begin < count; begin += block) {
    const int64_t n = std::min(block, count - begin);
    const void* left = at(values[0], begin);
    for (size_t k = 1; k < values.size(); ++k) {
      Combine(how, left, at(values[k], begin), sum, n);
      left = sum;
    }
    std::memcpy(static_cast<char*>(into) + begin * size, left, static_cast<size_t>(n * size));
  }
}

void FoldTwo(const MessagePort::Reduce& reduce, void* into, const void* arrived, int64_t bytes) {
  std::vector<const void*> values{into, arrived};
  if (!reduce.own_first) std::swap(values[0], values[1]);
  Fold({reduce.dtype, reduce.reduction}, values, into, bytes / SizeOf(reduce.dtype));
}

size_t StepsOfRange(std::span<const CollectiveStep> steps) {
  size_t count = 1;
  if (steps[0].action == StepAction::kCopy) return count;
  while (count < steps.size() && steps[count].destination() == steps[0].destination()) ++count;
  return count;
}

}  // namespace partita
