#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "graph/graph.h"
#include "graph/parallel/strategy.h"
#include "graph/partition/fragment.h"

namespace partita {

// Makes the fragments of strategies and keeps them: a strategy that differs from earlier ones in
// one operator needs new fragments for that operator and its neighbours only. Owned by the code
// that evaluates; not for several threads.
class FragmentCache {
 public:
  using Link = ChainLink;
  using Interrupted = std::function<bool()>;

  // Purpose of fragments.
  enum class Use : uint8_t {
    kPlan,    // tasks of a task graph
    kPricing  // the same tasks, but moves have outlines only, unless native formats are chosen
  };
  // Creates an empty cache. When what is kept takes more than `most`, all is dropped before the next
  // strategy: the memory of one strategy comes on top. The graph outlives the cache.
  FragmentCache(const Graph& graph, PartitionOptions options, Bytes most, Use use = Use::kPlan);
  FragmentCache(const FragmentCache&) = delete;
  FragmentCache& operator=(const FragmentCache&) = delete;

  // InvalidArgument says which operator, weight, collective or bucket does not fit, and why. The
  // fragments live until the next call.
  absl::Status FindOrBuild(const Strategy& strategy, StepFragments& step);
  // The same in parts, for those who may not need them all. Find: operators, weights, and the
  // tensors whose fragments are kept; the others are null in `step` and listed by missing(). Solve
  // and then Build: one entry of that list; false where the watch, which may be null, gave it up.
  // Complete, when none is missing: buckets. The strategy lives until then. Find is false, and of no
  // other use, where `interrupted`, which may be empty, was true before its end.
  absl::StatusOr<bool> Find(const Strategy& strategy, StepFragments& step,
                            const Interrupted& interrupted = nullptr);
  // Tensors without kept fragments. Those of one content share theirs where tasks are only priced.
  struct Missing {
    std::vector<TensorId> tensors;                                 // not empty
    TensorContent content;                                         // empty: not to be shared
    std::optional<TensorFragmentsBuilder> builder = std::nullopt;  // until Solve; perhaps none yet
  };
  std::span<Missing> missing() { return missing_; }
  std::span<const Missing> missing() const { return missing_; }
  TensorFragmentsBuilder Solve(Missing& missing, const Strategy& strategy) const;
  absl::StatusOr<bool> Build(const Missing& missing, TensorFragmentsBuilder solved,
                             const Strategy& strategy, StepFragments& step,
                             const CommunicationWatch* watch = nullptr);
  absl::Status Complete(const Strategy& strategy, StepFragments& step);
  // Parts of each operator under the strategy found last.
  PartsByOp parts() const { return parts_; }

  const Graph& graph() const { return graph_; }
  const PartitionOptions& options() const { return options_; }
  // All fragments in the order of a task graph: operators in topological order, each after what
  // brings its inputs; what control edges hold back comes in front of its first consumer.
  const std::vector<Link>& chain() const { return chain_; }
  const ChainPlaces& places() const { return places_; }
  std::span<const DemandGroup> groups(TensorId id) const { return groups_[id.index()]; }
  // Fragments kept are numbered below this, those that tensors share once; numbers restart when
  // `generation` changes.
  int32_t fragments() const { return fragments_; }
  int64_t generation() const { return generation_; }
  // Memory that kept fragments take, and what their user keeps for them: AddBytes.
  Bytes bytes() const { return bytes_; }
  void AddBytes(Bytes bytes) { bytes_ += bytes; }

 private:
  using Key = absl::InlinedVector<int32_t, 10>;
  // An anchor's configuration: what it makes of the operators that follow it.
  struct Configured {
    int32_t id = 0;
    ParallelConfig config;
    std::vector<std::vector<Part>> parts;  // indexed by place in followers_
    std::vector<OperatorFragment> fragments;
  };
  // A weight's layouts, and what they make of its updates.
  struct Placed {
    int32_t id = 0;
    Key key;
    WeightLayouts layouts;
    std::vector<std::vector<Part>> parts;  // indexed by place in updates_
    std::vector<OperatorFragment> fragments;
    std::vector<Fragment> stores;  // indexed by place in kept_tensors_
  };
  template <class Value>
  using Kept = absl::flat_hash_map<Key, std::unique_ptr<Value>>;

  void FindChain();
  void FindPlaces();
  void FindDependencies();
  // False where interrupted, as Find.
  absl::StatusOr<bool> FindConfigs(const Strategy& strategy, const Interrupted& interrupted);
  absl::Status AddConfig(OpId anchor, const ParallelConfig& config);
  absl::Status FindLayouts(const Strategy& strategy, StepFragments& step);
  absl::Status AddLayout(const Strategy& strategy, size_t weight, Placed& placed);
  int32_t PlacementId(const Strategy& strategy, size_t weight);
  bool FindTensors(const Strategy& strategy, StepFragments& step, const Interrupted& interrupted);
  TensorFragmentsBuilder BuilderOf(TensorId id, const Strategy& strategy) const;
  // Where the entries of missing() are, by content.
  using MissingPlaces = absl::flat_hash_map<absl::Span<const int64_t>, size_t>;
  // Finds fragments of equal content for a tensor that has none of its own; null, and listed by
  // missing(), where there are none.
  const TensorFragments* FindAlike(TensorId id, const Strategy& strategy, MissingPlaces& places);
  // Whether fragments have outlines only, and may be those of several tensors.
  bool IsOutlined() const { return use_ == Use::kPricing && !options_.native_formats; }
  Key KeyOfTensor(TensorId id, std::span<const AlgorithmChoice> algorithms,
                  const Strategy& strategy);
  int32_t AlgorithmsId(size_t tensor, std::span<const AlgorithmChoice> algorithms);
  absl::Status FindBuckets(const Strategy& strategy, StepFragments& step);
  void Register(Fragment& fragment);
  void Clear();
  int32_t WeightOf(const Tensor& tensor) const;

  const Graph& graph_;
  const PartitionOptions options_;
  const Bytes most_;
  const Use use_;

  // Facts of the graph. A *decision* is what a fragment depends on: anchor a of graph.anchors() is
  // decision a, the layouts of weight w are decision anchors + w.
  std::vector<std::vector<DemandGroup>> groups_;  // indexed by TensorId
  std::vector<Link> chain_;
  ChainPlaces places_;
  std::vector<TaskRun> runs_;                 // runs of a step without buckets
  std::vector<std::vector<OpId>> followers_;  // indexed by OpId of an anchor; itself included
  std::vector<std::vector<OpId>> updates_;    // indexed by weight
  std::vector<std::vector<TensorId>> kept_tensors_;   // indexed by weight: itself and its states
  std::vector<std::vector<int32_t>> layout_depends_;  // indexed by weight: decisions
  std::vector<std::vector<int32_t>> tensor_depends_;  // indexed by TensorId: decisions
  std::vector<int32_t> weight_of_;                    // indexed by TensorId; -1 for activations
  std::vector<bool> is_host_;                         // indexed by TensorId: the host reads it

  // Kept fragments.
  std::vector<absl::flat_hash_map<ParallelConfig, std::unique_ptr<Configured>>> configs_;
  std::vector<std::vector<std::pair<WeightPlacement, int32_t>>> placements_;  // indexed by weight
  std::vector<Kept<Placed>> layouts_;                                         // indexed by weight
  std::vector<absl::flat_hash_map<Key, std::shared_ptr<const TensorFragments>>>
      tensors_;  // indexed by TensorId
  absl::flat_hash_map<TensorContent, std::shared_ptr<const TensorFragments>> by_content_;
  std::vector<std::vector<std::vector<AlgorithmChoice>>> algorithms_;  // indexed by TensorId
  // Keyed by the members' tensors, the numbers of their fragments, their tasks, and the algorithm
  // chosen.
  absl::flat_hash_map<std::pair<Key, std::string>, std::unique_ptr<BucketFragment>> buckets_;
  int32_t fragments_ = 0;
  int32_t ids_ = 0;
  Bytes bytes_;
  int64_t generation_ = 0;

  // State of the current strategy.
  std::vector<int32_t> decided_;               // indexed by decision: the id of what was chosen
  std::vector<const Configured*> configured_;  // indexed by OpId of an anchor; null at first
  std::vector<const Placed*> placed_;          // indexed by weight; null at first
  // Fragments found last, indexed by TensorId, and their keys; null where they were not kept.
  struct FoundTensor {
    Key key;
    const TensorFragments* fragments = nullptr;
  };
  std::vector<FoundTensor> found_;
  std::vector<std::span<const Part>> parts_;  // indexed by OpId
  std::vector<Missing> missing_;
};

}  // namespace partita
