#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "planner/evaluator.h"
#include "planner/loads.h"

namespace partita {

// Time of a part of a step if nothing else ran: that of the busiest device's compute lane, and of
// the busiest communication lane or channel. Nanoseconds.
struct AdditiveTime {
  int64_t compute = 0;
  int64_t communication = 0;

  int64_t sum() const { return compute + communication; }
  AdditiveTime& operator+=(AdditiveTime other) {
    compute += other.compute;
    communication += other.communication;
    return *this;
  }
};

// How exchanges are priced.
enum class ExchangePricing : uint8_t {
  kWhole,  // as tasks
  // Exchanges without sums by the bytes that have to arrive (LeastArrivals), which are found much
  // faster; others as tasks.
  kSumsWhole,
  kByBytes  // sums, too; nothing where the bytes are not known
};

// Time of exchanges; `is_least`: with sums by their bytes, which take about that at least.
struct ExchangeTime {
  AdditiveTime time;
  bool is_least = false;

  ExchangeTime& operator+=(const ExchangeTime& other) {
    time += other.time;
    is_least |= other.is_least;
    return *this;
  }
};

// An anchor's configuration and what it makes of it and its followers.
struct ConfiguredAnchor {
  OpId anchor;
  ParallelConfig config;
  std::vector<std::vector<Part>> parts;  // indexed by follower
};

// The additive cost of a strategy (OptCNN: Jia, Lin, Qi, Aiken, ICML 2018, section 4): a time for
// each anchor under its configuration and one for each pair of anchors that exchange tensors. Their
// sum is the time of a step where nothing overlaps, kernels are not fused, and weights lie where
// they are read. A tensor of several makers or readers counts for each pair as if the
// pair were alone, and a weight of several readers for each by its share. Not for several threads.
class AdditiveCosts {
 public:
  // The evaluator outlives this. Times that were found are kept in at most `most` bytes.
  AdditiveCosts(const Evaluator& evaluator, Bytes most);

  std::span<const OpId> FollowersOf(OpId anchor) const { return followers_[anchor.index()]; }
  // Pairs of anchors, the earlier first, with the tensors that go between.
  struct Pair {
    OpId a, b;
    std::vector<TensorId> tensors;
  };
  std::span<const Pair> pairs() const { return pairs_; }
  // Kinds of pairs, by place there, numbered from 0 in the order of their first ones: those of anchors of
  // the same kinds, by OpId, whose followers make and read in the same places what goes between.
  std::vector<int32_t> KindsOfPairs(std::span<const int32_t> kind_of) const;

  // nullopt where it does not fit.
  std::optional<ConfiguredAnchor> Configure(OpId anchor, const ParallelConfig& config) const;
  // Kernels of the anchor and its followers.
  AdditiveTime OfKernels(const ConfiguredAnchor& one);
  // The same from a few parts of each (SamplePartsOf): near it where the split is even, for much less.
  // nullopt where one of those does not fit.
  std::optional<AdditiveTime> OfSampledKernels(OpId anchor, const ParallelConfig& config);
  // Exchanges among them, with the gradients and updates of weights.
  ExchangeTime OfExchanges(const ConfiguredAnchor& one, ExchangePricing pricing);
  // Exchanges of two with each other.
  ExchangeTime Between(const Pair& pair, const ConfiguredAnchor& a, const ConfiguredAnchor& b,
                       ExchangePricing pricing);
  // Bytes, indexed by device, of the weights that no other anchor reads and of their states.
  std::vector<int64_t> KeptBytes(const ConfiguredAnchor& one);

 private:
  std::vector<int32_t> KeyOf(const Pair& pair, std::span<const int32_t> kind_of) const;
  void FindTensors();
  void FindSenders();
  OpId AnchorOf(OpId op) const { return graph_.op(op).anchor; }
  void Set(const ConfiguredAnchor& one);
  void Unset(const ConfiguredAnchor& one);
  // Nanoseconds of the device that the kernels of an operator's parts keep busy longest.
  int64_t BusiestOf(const Operator& op, std::span<const Part> parts);
  AdditiveTime OfGraph(const TaskGraph& tasks);
  ExchangeTime OfTensor(TensorId id, ExchangePricing pricing);
  AdditiveTime OfTasks(const Tensor& tensor);
  std::optional<AdditiveTime> Remembered(const TensorContent& content);
  void Remember(TensorContent content, AdditiveTime time);
  bool MakesSums(const Tensor& tensor);
  // Time as messages from one device near and one far; nullopt where the bytes are not known.
  std::optional<AdditiveTime> OfArrivingBytes(const Tensor& tensor);
  ExchangeTime OfWeight(size_t weight, ExchangePricing pricing);

  const Graph& graph_;
  const CostModel& model_;
  const SimulatedResources& resources_;
  ResourceLister lister_;
  LoadSums sums_;
  const PartitionOptions options_;
  std::vector<int64_t> busy_;                  // indexed by device; all 0 between calls
  const Strategy defaults_;                    // whose weights lie as by default
  std::vector<std::vector<OpId>> followers_;   // indexed by OpId of an anchor
  std::vector<std::vector<TensorId>> own_;     // indexed by OpId of an anchor: its tensors
  std::vector<std::vector<size_t>> weights_;   // indexed by OpId of an anchor: that it reads
  std::vector<std::vector<OpId>> updates_;     // indexed by weight
  std::vector<std::vector<TensorId>> states_;  // indexed by weight
  std::vector<int64_t> readers_;               // indexed by weight: anchors that read it
  std::vector<Pair> pairs_;
  std::vector<size_t> node_of_;       // indexed by device
  std::vector<DeviceId> near_, far_;  // indexed by device: a sender of the same node, of another
  // Indexed by term: the question (MakesSums) in which it was met last; the last question's number.
  std::vector<int64_t> term_met_;
  int64_t met_ = 0;
  std::vector<std::vector<DemandGroup>> groups_;  // indexed by TensorId; empty until asked for
  std::vector<std::span<const Part>> parts_;      // indexed by OpId; empty between calls
  // Times of exchanges found before: those asked for since the older ones were put aside, and
  // those, which go when the recent ones take half of what may be taken.
  using Times = absl::flat_hash_map<TensorContent, AdditiveTime>;
  const Bytes most_;
  Times recent_, older_;
  Bytes bytes_of_recent_;
};

}  // namespace partita
