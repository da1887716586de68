#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace partita {

// Routers in a grid of rings: each has a neighbour up and one down in every dimension, the last one
// and the first one of a ring being neighbours. Routers are counted with the first dimension
// running fastest. Ways are in the order of the dimensions: first to the right place in dimension
// 0, the shorter way around (up where both are as long), then in dimension 1, and so on.
class Torus {
 public:
  // A link between neighbours in a direction.
  struct Hop {
    int from = -1;  // the router that it leaves
    int link = -1;
    bool up = true;  // from the first end of the link to the second
  };

  // Extents are positive, and their product is an int.
  explicit Torus(std::vector<int> extents);

  int size() const { return strides_.back(); }
  // One from each router up in each dimension; in a dimension of two one for both neighbours, in a
  // dimension of one none.
  int links() const { return first_link_.back(); }
  int links_of_router() const;
  // The routers that a link joins, the second one up from the first.
  std::pair<int, int> EndsOf(int link) const;

  // The last hop of the way from one router to another.
  Hop LastHop(int from, int to) const;

  // Directions in use by the ways between any two of the routers (ascending, each once): at 2 *
  // link for up, and one more for down.
  std::vector<bool> UsedBetween(std::span<const int> routers) const;

 private:
  size_t dimensions() const { return extents_.size(); }
  // The link between a router and the next one up in a dimension.
  int LinkUp(int router, size_t dimension) const;
  // The hop up or down from a router in a dimension, and where it leads.
  std::pair<Hop, int> HopFrom(int router, size_t dimension, bool up) const;
  void MarkRing(std::span<const int> targets, int from, size_t dimension,
                std::vector<bool>& used) const;

  std::vector<int> extents_;
  std::vector<int> strides_;     // by dimension, and the size
  std::vector<int> first_link_;  // by dimension, and how many there are
};

}  // namespace partita
