#pragma once

#include <algorithm>
#include <functional>

namespace partita {

// Sorts what mostly is in order: that takes one look.
template <class Iterator, class Less = std::less<>>
void SortUnlessSorted(Iterator first, Iterator last, Less less = {}) {
  if (!std::is_sorted(first, last, less)) std::sort(first, last, less);
}

}  // namespace partita
