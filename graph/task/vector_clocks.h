#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace partita {

// Vector clocks: for each of a number of lanes a count, at least 0. Clocks are immutable binary
// trees over the lanes that share the subtrees in which they agree, so that the clocks of a step's
// tasks take memory for their differences only, not tasks x lanes.
class VectorClocks {
 public:
  // A clock of this object. 0: all counts are 0.
  using Clock = uint32_t;

  explicit VectorClocks(size_t lanes);

  // The count of a lane. Time: the logarithm of the number of lanes.
  int32_t At(Clock clock, size_t lane) const;
  // The clock with one count replaced.
  Clock With(Clock clock, size_t lane, int32_t count);
  // The larger count of each lane. Subtrees that the two share, and pairs of subtrees that were
  // compared lately, are not walked.
  Clock Max(Clock a, Clock b) { return Max(a, b, levels_); }

 private:
  using Node = std::array<uint32_t, 2>;  // node numbers; counts on the lowest level
  struct Compared {
    Clock a = 0, b = 0, larger = 0;
  };

  Clock Max(Clock a, Clock b, int level);
  Clock With(Clock clock, size_t lane, int32_t count, int level);
  Clock Add(Node node);

  const int levels_;
  std::vector<Node> nodes_;         // node 0: zeros, on every level
  std::vector<Compared> compared_;  // results of Max, at a place that follows from the pair
};

}  // namespace partita
