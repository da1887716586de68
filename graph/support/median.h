#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace partita {

// The median; of an even number of values the mean of the two in the middle. Precondition: not empty.
template <class T>
T Median(std::vector<T> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  const T lower = *std::max_element(values.begin(), middle);
  return lower + (*middle - lower) / 2;
}

}  // namespace partita
