#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace partita {

// A binary min-heap's flatter sibling: four children to a node, so that a sift-down touches half as
// many cache lines. Keys are whole integers, smallest first.
template <class Key>
class FourAryHeap {
 public:
  void Reserve(size_t n) { keys_.reserve(n); }
  bool empty() const { return keys_.empty(); }

  void Push(Key key) {
    size_t i = keys_.size();
    keys_.push_back(key);
    while (i > 0) {
      const size_t parent = (i - 1) / 4;
      if (keys_[parent] <= key) break;
      keys_[i] = keys_[parent];
      i = parent;
    }
    keys_[i] = key;
  }

  Key Pop() {
    const Key top = keys_[0];
    const Key last = keys_.back();
    keys_.pop_back();
    if (!keys_.empty()) SiftDown(last);
    return top;
  }

 private:
  // Puts `key` in the root's place.
  void SiftDown(Key key) {
    const size_t n = keys_.size();
    size_t i = 0;
    for (;;) {
      const size_t first = 4 * i + 1;
      if (first >= n) break;
      size_t best = first;
      const size_t end = first + 4 < n ? first + 4 : n;
      for (size_t child = first + 1; child < end; ++child) {
        if (keys_[child] < keys_[best]) best = child;
      }
      if (keys_[best] >= key) break;
      keys_[i] = keys_[best];
      i = best;
    }
    keys_[i] = key;
  }

  std::vector<Key> keys_;
};

}  // namespace partita
