#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace partita {

// Vertices by gain, as Fiduccia and Mattheyses keep them (DAC 1982): a list for each range of gains,
// so that insertion, removal and the best take constant time apart from walks over empty ranges.
// Ranges are of one width; of one range the vertex that entered last comes first.
class GainBuckets {
 public:
  // Gains lie within [-most, most].
  GainBuckets(int32_t vertices, int64_t most);

  bool empty() const { return count_ == 0; }
  // A vertex of the highest range that has any. Precondition: not empty.
  int32_t Best();

  bool Contains(int32_t vertex) const { return bucket_[Index(vertex)] >= 0; }
  void Insert(int32_t vertex, int64_t gain);
  void Remove(int32_t vertex);  // precondition: it is in
  // Empties it, in time proportional to the ranges and vertices unless it is empty.
  void Clear();

 private:
  static constexpr int32_t kNone = -1;
  static size_t Index(int32_t number) { return static_cast<size_t>(number); }

  int64_t most_, width_;
  int32_t count_ = 0, highest_ = kNone;        // no bucket above `highest_` has vertices
  std::vector<int32_t> head_;                  // first vertex of each bucket
  std::vector<int32_t> next_, prev_, bucket_;  // indexed by vertex
};

}  // namespace partita
