#include "runtime/executor/copy_comparison.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "graph/precision.h"
#include "runtime/support/tolerance.h"

namespace partita {
namespace {

template <class T>
T ValueAt(std::span<const char> values, size_t i) {
  T value;
  std::memcpy(&value, values.data() + i * sizeof(T), sizeof(T));
  return value;
}

template <class T>
bool FloatsAgree(std::span<const char> left, std::span<const char> right) {
  double largest = 0, error = 0;
  for (size_t i = 0; i < left.size() / sizeof(T); ++i) {
    const double value = ValueAt<T>(left, i), difference = value - ValueAt<T>(right, i);
    if (!std::isfinite(difference)) return false;
    largest = std::max(largest, std::abs(value));
    error = std::max(error, std::abs(difference));
  }
  return error <= ToleranceOf(Precision::kFloat32) * largest;
}

}  // namespace

bool CopiesAgree(DType dtype, std::span<const char> left, std::span<const char> right) {
  if (std::equal(left.begin(), left.end(), right.begin(), right.end())) return true;
  if (left.size() != right.size()) return false;
  if (dtype == DType::kFloat32) return FloatsAgree<float>(left, right);
  return dtype == DType::kFloat64 && FloatsAgree<double>(left, right);
}

}  // namespace partita
