#include "runtime/executor/copy_comparison.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
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

// Precondition: some bytes differ.
template <class T>
std::optional<std::string> DifferenceOf(std::span<const char> left, std::span<const char> right,
                                        double tolerance) {
  double largest = 0, error = -1;  // of elements that differ
  size_t worst = 0;
  for (size_t i = 0; i < left.size() / sizeof(T); ++i) {
    const T a = ValueAt<T>(left, i), b = ValueAt<T>(right, i);
    if (std::isfinite(static_cast<double>(a))) {
      largest = std::max(largest, std::abs(static_cast<double>(a)));
    }
    const bool equal = std::memcmp(&a, &b, sizeof(T)) == 0;
    if (equal && (tolerance == 0 || std::isfinite(static_cast<double>(a)))) continue;
    double difference = std::abs(static_cast<double>(a) - static_cast<double>(b));
    if (!std::isfinite(difference)) difference = HUGE_VAL;
    if (difference <= error) continue;
    error = difference;
    worst = i;
  }
  if (tolerance > 0 && error <= tolerance * largest) return std::nullopt;
  return absl::StrCat("most at element ", worst, ": ", ValueAt<T>(left, worst), " and ",
                      ValueAt<T>(right, worst), ", the largest is ", largest);
}

}  // namespace

std::optional<std::string> DifferenceOfCopies(DType dtype, std::span<const char> left,
                                              std::span<const char> right, bool rounded_apart) {
  if (left.size() != right.size()) {
    return absl::StrCat(left.size(), " and ", right.size(), " bytes");
  }
  if (std::equal(left.begin(), left.end(), right.begin())) return std::nullopt;
  const double tolerance = rounded_apart ? ToleranceOf(Precision::kFloat32) : 0;
  switch (dtype) {
    case DType::kFloat32:
      return DifferenceOf<float>(left, right, tolerance);
    case DType::kFloat64:
      return DifferenceOf<double>(left, right, tolerance);
    case DType::kInt32:
      return DifferenceOf<int32_t>(left, right, 0);
    default:
      break;
  }
  return "in their bytes";
}

}  // namespace partita
