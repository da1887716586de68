#pragma once

#include <cstddef>
#include <vector>

namespace partita {

// A binary min-heap's flatter sibling: four children to a node, so that a sift-down touches half as
// many cache lines. Keys are whole integers, smallest first; none is the largest of all.
template <class Key>
class FourAryHeap {
 public:
  FourAryHeap() : keys_(kChildren, kLast) {}

  void Reserve(size_t n) { keys_.reserve(n + kChildren); }
  bool empty() const { return size_ == 0; }
  void Clear() {
    if (empty()) return;
    keys_.assign(kChildren, kLast);
    size_ = 0;
  }
  // Precondition: not empty.
  Key top() const { return keys_[0]; }

  void Push(Key key) {
    keys_.push_back(kLast);
    SiftUp(size_++, key);
  }

  // The hole goes down to a leaf by the smallest children, and the last key up from there: it came
  // from a leaf, and seldom rises.
  Key Pop() {
    const Key top = keys_[0], last = keys_[--size_];
    keys_[size_] = kLast;
    keys_.pop_back();
    size_t hole = 0;
    for (size_t first = 1; first < size_; first = kChildren * hole + 1) {
      const Key* child = keys_.data() + first;
      const size_t a = child[1] < child[0] ? 1 : 0, b = child[3] < child[2] ? 3 : 2;
      const size_t best = first + (child[b] < child[a] ? b : a);
      keys_[hole] = keys_[best];
      hole = best;
    }
    if (size_ > 0) SiftUp(hole, last);
    return top;
  }

 private:
  static constexpr size_t kChildren = 4;
  static constexpr Key kLast = ~Key{0};

  void SiftUp(size_t i, Key key) {
    while (i > 0) {
      const size_t parent = (i - 1) / kChildren;
      if (keys_[parent] <= key) break;
      keys_[i] = keys_[parent];
      i = parent;
    }
    keys_[i] = key;
  }

  std::vector<Key> keys_;  // and behind them kLast, once for each child
  size_t size_ = 0;
};

}  // namespace partita
