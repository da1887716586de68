#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace partita {

// Blocks of 64 lanes; a mask has bit l for the lane l of its block.
inline constexpr int32_t kLanesOfBlock = 64;

template <class Visit>
void ForEachLane(uint64_t lanes, Visit&& visit) {
  for (; lanes != 0; lanes &= lanes - 1) visit(std::countr_zero(lanes));
}

// Whether it is one lane, of one or more.
inline bool IsOneLane(uint64_t lanes) { return (lanes & (lanes - 1)) == 0; }
inline int32_t CountOf(uint64_t lanes) { return IsOneLane(lanes) ? 1 : std::popcount(lanes); }

// How many of the lanes lie before one of them.
inline int32_t LanesBefore(uint64_t lanes, int32_t lane) {
  return std::popcount(lanes & ((uint64_t{1} << lane) - 1));
}

// Counts of 64 lanes in planes of bits: bit l of plane k is bit k of the count of lane l.
class LaneCounts {
 public:
  void Clear() { planes_.clear(); }
  void Add(uint64_t lanes) {
    for (uint64_t& plane : planes_) {
      const uint64_t carried = plane & lanes;
      plane ^= lanes;
      lanes = carried;
      if (lanes == 0) return;
    }
    if (lanes != 0) planes_.push_back(lanes);
  }
  // Precondition: none of these is 0.
  void Subtract(uint64_t lanes) {
    for (uint64_t& plane : planes_) {
      const uint64_t borrowed = ~plane & lanes;
      plane ^= lanes;
      lanes = borrowed;
      if (lanes == 0) return;
    }
  }
  // Lanes whose count is not 0.
  uint64_t NonZero() const {
    uint64_t any = 0;
    for (uint64_t plane : planes_) any |= plane;
    return any;
  }

 private:
  std::vector<uint64_t> planes_;
};

// Counts of 64 lanes likewise, small ones, in one place.
struct SmallLaneCounts {
  static constexpr size_t kPlanes = 4;
  static constexpr uint64_t kMost = (uint64_t{1} << kPlanes) - 1;

  std::array<uint64_t, kPlanes> planes = {};

  // Adds the low bits of a count to that of a lane, which is 0.
  void Add(int lane, uint64_t count) {
    for (size_t k = 0; k < kPlanes; ++k) planes[k] |= (count >> k & 1) << lane;
  }
  // Subtracts 1 of the lanes' counts.
  struct Less {
    uint64_t zero = 0;      // lanes whose count is 0 now
    uint64_t borrowed = 0;  // lanes whose count was 0, and is 15 now
  };
  Less Subtract(uint64_t lanes) {
    const uint64_t odd = planes[0] & lanes;
    uint64_t borrowed = lanes & ~odd;
    planes[0] ^= lanes;
    for (size_t k = 1; borrowed != 0 && k < kPlanes; ++k) {
      const uint64_t more = borrowed & ~planes[k];
      planes[k] ^= borrowed;
      borrowed = more;
    }
    return {odd & ~(planes[1] | planes[2] | planes[3]), borrowed};
  }
  uint64_t NonZero() const { return planes[0] | planes[1] | planes[2] | planes[3]; }
};

}  // namespace partita
