#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace partita {

// Address of a rank's element `offset` in a collective: its elements are those of its slices one
// after another, slice k from element starts[k] on (SliceStarts). `size`: of an element in bytes.
inline char* ElementAt(std::span<void* const> slices, std::span<const int64_t> starts,
                       int64_t offset, int64_t size) {
  size_t k = 0;
  if (slices.size() > 1) {
    const auto next = std::upper_bound(starts.begin(), starts.end(), offset);
    k = static_cast<size_t>(next - starts.begin()) - 1;
    offset -= starts[k];
  }
  return static_cast<char*>(slices[k]) + offset * size;
}

}  // namespace partita
