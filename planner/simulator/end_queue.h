#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/simulator/task_heap.h"

namespace partita {

// Tasks that run, by the times at which they end. Devices that do alike end tasks at the same time:
// one entry of a heap stands for most of those, as a list.
template <class Key>
class EndQueue {
 public:
  // Empties it, for so many tasks, of which each number takes `bits` bits.
  void Prepare(size_t tasks, int bits) {
    heap_.Clear();
    next_.resize(tasks);
    bits_ = bits;
    lists_.fill({});
  }
  bool empty() const { return heap_.empty(); }
  // Precondition: not empty.
  int64_t first_end() const { return static_cast<int64_t>(heap_.top() >> bits_); }

  // Precondition: the task is not here, and the end is later than all that PopFirst took.
  void Push(int64_t end, size_t task) {
    next_[task] = kNone;
    List& list = lists_[static_cast<uint64_t>(end) * kFactor >> (64 - kListBits)];
    if (list.end == end) {
      next_[static_cast<size_t>(list.last)] = static_cast<int32_t>(task);
    } else {
      list.end = end;
      heap_.Push(static_cast<Key>(end) << bits_ | static_cast<Key>(task));
    }
    list.last = static_cast<int32_t>(task);
  }

  // Takes the tasks out that end first, and passes each to `visit`, which adds none.
  template <class Visit>
  void PopFirst(Visit&& visit) {
    const int64_t end = first_end();
    do {
      const Key first = heap_.Pop() & ((Key{1} << bits_) - 1);
      for (auto task = static_cast<int32_t>(first); task != kNone;) {
        const auto t = static_cast<size_t>(task);
        task = next_[t];
        visit(t);
      }
    } while (!empty() && first_end() == end);
  }

 private:
  static constexpr int32_t kNone = -1;
  // Lists that may grow: as many as a few groups of devices that do alike have at a time.
  static constexpr int kListBits = 6;
  static constexpr uint64_t kFactor = 0x9E3779B97F4A7C15;  // 2^64 over the golden ratio
  struct List {
    int64_t end = -1;
    int32_t last = kNone;
  };

  FourAryHeap<Key> heap_;      // ends, and the first tasks of lists in lower bits
  std::vector<int32_t> next_;  // by task in a list: the one behind it
  std::array<List, size_t{1} << kListBits> lists_;  // by a hash of the end: the last one there
  int bits_ = 0;
};

}  // namespace partita
