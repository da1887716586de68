#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "graph/graph.h"
#include "planner/bound/operator_splits.h"

namespace partita {

// The earliest times of a step, in nanoseconds, whatever splits and devices the operators have:
// longest paths through the graph that count what has to travel.
//
// A part of an operator waits until what it reads of each operand is complete on its device. What it
// reads lies in a number of the producer's parts, for each term of every element. The device has
// computed some of them itself, one after the other; the rest, divided over all other devices, were
// computed there, and then what lacks a term arrived over the channels that end at the device.
// The cheapest such number, under the producer's cheapest split, counts for each operand by itself.
// An operator's time is that of its quickest part.
class LeastPath {
 public:
  // Arguments outlive this.
  LeastPath(const BoundSubject& subject, SplitFinder& finder, const LeastPrices& prices);

  // The end of the last operator.
  int64_t Length() const { return length_; }
  // Before that no part of an operator starts; kNoTime for one without parts. Indexed by OpId.
  const std::vector<int64_t>& heads() const { return heads_; }

 private:
  // A split of a producer with its earliest start.
  struct Maker {
    int64_t start = 0, time = 0;
    OperatorSplit::Made made;
  };
  void Visit(const Operator& op);
  void VisitUpdate(const Operator& op);
  void AddMakers(const Operator& op, const std::vector<OperatorSplit>& splits,
                 const std::vector<int64_t>& starts);
  int64_t StartOf(const Operator& op, const OperatorSplit& split);
  int64_t ReadyAt(TensorId tensor, const Shape& need);
  // When the maker's parts have it complete on a device, of elements of so many bytes; `enough`
  // where that is not earlier.
  int64_t ReadyFrom(const Maker& maker, const Shape& need, int64_t size,
                    int64_t enough = kNoTime) const;
  // A time that this is no earlier than, where some of its bytes arrive.
  int64_t WithArrivals(const Maker& maker, int64_t bytes, int64_t bytes_of_part) const;

  const Graph& graph_;
  const std::vector<FusionFate>& fates_;
  SplitFinder& finder_;
  const int64_t others_;  // other devices
  const LeastDelivery delivery_;
  // Indexed by TensorId: for each operator that makes all of it, its splits, those that end first in
  // front.
  std::vector<std::vector<std::vector<Maker>>> makers_;
  // Indexed by TensorId: when a box of these extents may be complete on a device.
  std::vector<absl::flat_hash_map<Shape, int64_t>> ready_;
  std::vector<int64_t> loads_;             // indexed by TensorId: the least of its loads
  std::vector<std::vector<Maker>> fused_;  // indexed by OpId of an epilogue
  std::vector<int64_t> heads_;
  int64_t length_ = 0;
};

}  // namespace partita
