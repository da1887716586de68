#pragma once

#include <cstdint>
#include <optional>

#include "graph/box.h"

namespace partita {

// The first element of a region from the given one on, both counted in the row-major order of the
// window that the region lies in; nullopt behind the last. Neither is empty.
inline std::optional<int64_t> NextElementOf(const Box& region, const Box& window, int64_t element) {
  const int rank = window.rank();
  Box at = region;  // the element's index is that of the lower corner
  int64_t rest = element;
  for (int d = rank; d-- > 0;) {
    at[d].lo = window[d].lo + rest % window[d].size();
    rest /= window[d].size();
  }
  // The first dimension along which the index is outside; it goes up to the region's beginning
  // there, or up by one before.
  int d = 0;
  while (d < rank && region[d].lo <= at[d].lo && at[d].lo < region[d].hi) ++d;
  if (d == rank) return element;
  if (at[d].lo >= region[d].hi) {
    do {
      if (d-- == 0) return std::nullopt;
    } while (at[d].lo + 1 >= region[d].hi);
    ++at[d].lo;
    ++d;
  }
  for (; d < rank; ++d) at[d].lo = region[d].lo;
  return PlacementIn(at, window).offset;
}

}  // namespace partita
