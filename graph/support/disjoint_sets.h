#pragma once

#include <cstddef>
#include <numeric>
#include <vector>

namespace partita {

// Sets of numbers below `count`, each number alone at first, that are joined.
class DisjointSets {
 public:
  explicit DisjointSets(size_t count) : parent_(count) {
    std::iota(parent_.begin(), parent_.end(), size_t{0});
  }

  // The member that stands for the number's set.
  size_t RootOf(size_t number) {
    while (parent_[number] != number) number = parent_[number] = parent_[parent_[number]];
    return number;
  }
  // Afterwards the root of a's set stands for both.
  void Join(size_t a, size_t b) { parent_[RootOf(b)] = RootOf(a); }

 private:
  std::vector<size_t> parent_;
};

}  // namespace partita
