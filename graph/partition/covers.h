#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

namespace partita {

// The sources and wants that cover a region of a tensor, or of one of its dimensions, as numbers;
// ascending. Tells regions apart.
struct Covers {
  std::span<const int32_t> sources, wants;

  friend bool operator==(const Covers& a, const Covers& b) {
    return std::ranges::equal(a.sources, b.sources) && std::ranges::equal(a.wants, b.wants);
  }
  template <class H>
  friend H AbslHashValue(H h, const Covers& covers) {
    h = H::combine_contiguous(std::move(h), covers.sources.data(), covers.sources.size());
    h = H::combine_contiguous(std::move(h), covers.wants.data(), covers.wants.size());
    return H::combine(std::move(h), covers.sources.size(), covers.wants.size());
  }
};

}  // namespace partita
