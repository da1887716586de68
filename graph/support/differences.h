#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace partita {

// Makes a list equal to another one of its length, and calls visit(place) for each place at which
// they differed, ascending. For long lists that differ in few places.
template <class T, class Visit>
void ForEachDifference(std::span<const T> wanted, std::vector<T>& list, Visit&& visit) {
  constexpr size_t kBlock = 64;  // compared in one go
  for (size_t begin = 0; begin < list.size(); begin += kBlock) {
    const size_t end = std::min(begin + kBlock, list.size());
    const auto block = wanted.subspan(begin, end - begin);
    if (std::equal(block.begin(), block.end(), list.begin() + static_cast<std::ptrdiff_t>(begin))) {
      continue;
    }
    for (size_t place = begin; place < end; ++place) {
      if (list[place] == wanted[place]) continue;
      list[place] = wanted[place];
      visit(place);
    }
  }
}

}  // namespace partita
