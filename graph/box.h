#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"

namespace partita {

// Largest extent of one dimension of a tensor.
constexpr int64_t kMaxExtent = (int64_t{1} << 31) - 1;

// A half-open range [lo, hi) of indices along one dimension of a tensor. Boxes are most of what
// searches keep: their numbers are as small as kMaxExtent allows.
struct Interval {
  int32_t lo = 0;
  int32_t hi = 0;

  constexpr Interval() = default;
  // Precondition: both are within kMaxExtent of 0.
  constexpr Interval(int64_t from, int64_t to)
      : lo(static_cast<int32_t>(from)), hi(static_cast<int32_t>(to)) {}

  int64_t size() const { return int64_t{hi} - lo; }
  bool empty() const { return hi <= lo; }
  bool Contains(Interval b) const { return lo <= b.lo && b.hi <= hi; }
  friend auto operator<=>(const Interval&, const Interval&) = default;
  friend bool operator==(Interval a, Interval b) {
    return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
  }
  template <class H>
  friend H AbslHashValue(H h, const Interval& a) {
    return H::combine(std::move(h), a.lo, a.hi);
  }
};

inline Interval Intersect(Interval a, Interval b) {
  const int32_t lo = a.lo > b.lo ? a.lo : b.lo;
  const int32_t hi = a.hi < b.hi ? a.hi : b.hi;
  return {lo, hi > lo ? hi : lo};
}

// The extents of a tensor, outermost first (row-major). Rank 0 is a scalar.
using Shape = absl::InlinedVector<int64_t, 5>;

// The number of elements; 1 for a scalar.
int64_t Volume(const Shape& shape);
std::string ToString(const Shape& shape);

// A rectangular region of a tensor: one interval for each dimension. A box of rank 0 holds one
// element and is never empty; a box with an empty interval holds none.
class Box {
 public:
  Box() = default;
  explicit Box(int rank) : dims_(static_cast<size_t>(rank)) {}
  Box(std::initializer_list<Interval> dims) : dims_(dims) {}
  static Box Full(const Shape& shape);

  int rank() const { return static_cast<int>(dims_.size()); }
  std::span<const Interval> dims() const { return {dims_.data(), dims_.size()}; }
  const Interval& operator[](int d) const { return dims_[static_cast<size_t>(d)]; }
  Interval& operator[](int d) { return dims_[static_cast<size_t>(d)]; }

  bool empty() const;
  int64_t volume() const {
    int64_t volume = 1;
    for (const Interval& dim : dims()) volume *= dim.empty() ? 0 : dim.size();
    return volume;
  }
  Shape shape() const;
  bool Contains(const Box& b) const;

  friend bool operator==(const Box& a, const Box& b) {
    return std::ranges::equal(a.dims(), b.dims());
  }
  friend bool operator<(const Box& a, const Box& b) { return a.dims_ < b.dims_; }
  template <class H>
  friend H AbslHashValue(H h, const Box& a) {
    return H::combine(std::move(h), a.dims_);
  }

 private:
  absl::InlinedVector<Interval, 4> dims_;
};

std::string ToString(const Box& box);

// The common region; nullopt if there is none. Both have the same rank.
std::optional<Box> Intersect(const Box& a, const Box& b);

// Elements of the common region; and whether there are none. Both have the same rank.
inline int64_t CommonVolume(const Box& a, const Box& b) {
  const std::span<const Interval> of_a = a.dims(), of_b = b.dims();
  int64_t volume = 1;
  for (size_t d = 0; d < of_a.size() && volume > 0; ++d)
    volume *= Intersect(of_a[d], of_b[d]).size();
  return volume;
}
inline bool AreDisjoint(const Box& a, const Box& b) { return CommonVolume(a, b) == 0; }

// a without b, as disjoint boxes. b lies inside a.
std::vector<Box> Subtract(const Box& a, const Box& b);

// The part of `box` that none of `covers` holds, as disjoint boxes.
std::vector<Box> Uncovered(const Box& box, const std::vector<Box>& covers);

// Position of `inner` in a row-major buffer that holds `outer`: its first element's offset, and
// whether its elements are one contiguous run there.
struct Placement {
  int64_t offset = 0;
  bool contiguous = false;
};
Placement PlacementIn(const Box& inner, const Box& outer);

// Block k of n elements cut into `parts` blocks whose sizes differ by at most one.
inline Interval BlockOf(int64_t n, int64_t parts, int64_t k) {
  return {k * n / parts, (k + 1) * n / parts};
}

}  // namespace partita
