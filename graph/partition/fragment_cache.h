#pragma once

#include <algorithm>
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
#include "graph/partition/decision_numbers.h"
#include "graph/partition/fragment.h"
#include "graph/partition/fragment_classes.h"

namespace partita {

// Makes the fragments of strategies and keeps them: a strategy that differs from earlier ones in
// one operator needs new fragments for that operator and its neighbours only. Whatever is kept
// stays until DropOldest. Owned by the code that evaluates; not for several threads.
class FragmentCache {
 public:
  using Link = ChainLink;
  using Interrupted = std::function<bool()>;

  // Purpose of fragments.
  enum class Use : uint8_t {
    kPlan,     // tasks of a task graph
    kPricing,  // the same tasks, but moves have outlines only, unless native formats are chosen
    kExchanges  // those of tensors alone, as for pricing: of operators and updates parts, but no tasks
  };
  // Creates an empty cache. The graph outlives it.
  FragmentCache(const Graph& graph, PartitionOptions options, Use use = Use::kPlan);
  FragmentCache(const FragmentCache&) = delete;
  FragmentCache& operator=(const FragmentCache&) = delete;

  // InvalidArgument says which operator, weight, collective or bucket does not fit, and why;
  // Cancelled where `interrupted`, which may be empty, was true before the end.
  absl::Status FindOrBuild(const Strategy& strategy, StepFragments& step,
                           const Interrupted& interrupted = nullptr);
  // The same in parts, for those who may not need them all. Find: operators, weights, and the
  // tensors whose fragments are kept; the others are null in `step` and listed by missing(). Solve
  // and then Build: one entry of that list, whose communications are found in between.
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
  absl::Status Build(const Missing& missing, TensorFragmentsBuilder solved,
                     const Strategy& strategy, StepFragments& step);
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
  // Places of kept fragments are below this; those that tensors share have one.
  int32_t fragment_places() const { return static_cast<int32_t>(bytes_of_.size()); }

  // Memory that is taken by what is kept, and by what its user keeps for fragments: AddBytes.
  Bytes bytes() const { return bytes_; }
  void AddBytes(const Fragment& fragment, Bytes bytes) {
    bytes_ += bytes;
    bytes_of_[static_cast<size_t>(fragment.place)] += bytes;
  }
  // Leaves of the tasks of a tensor's exchanges, under the strategy found last, only the collectives: for
  // those who have listed and priced them. Where fragments have outlines only.
  void KeepCollectives(TensorId id);
  // Leaves none of the tasks and buffers of an operator's fragment, in the same way; whether that is
  // shared with other operators tells KindOf.
  void KeepNoKernels(OpId id);
  // Operators of one kind may have one fragment.
  struct OperatorKind {
    bool is_update = false;
    int32_t of = 0;     // class of the anchor, or of the weight
    int32_t place = 0;  // among those that follow it

    friend auto operator<=>(const OperatorKind&, const OperatorKind&) = default;
  };
  OperatorKind KindOf(OpId id) const;
  // Holds what the strategy found last is made of, but for buckets, in place of what was held
  // before.
  void Hold();
  // Drops what has not been part of a strategy for longest, until at most `most` bytes are taken.
  // Keeps what is held, or was found last. Returns the places of the fragments that are gone; the
  // list lives until the next call.
  std::span<const int32_t> DropOldest(Bytes most);

 private:
  using Key = absl::InlinedVector<int32_t, 10>;
  // Something that is kept, with its bytes but for those of its fragments.
  struct Entry {
    int64_t last_use = 0;  // the number of a call of Find
    Bytes bytes;
  };
  // A configuration of the anchors of one class: what it makes of the operators that follow them.
  struct Configured : Entry {
    int32_t id = 0;
    ParallelConfig config;
    std::vector<std::vector<Part>> parts;      // indexed by place in followers_
    std::vector<std::vector<Part>> pod_parts;  // those of the first pod; empty where all are wanted
    std::vector<OperatorFragment> fragments;
  };
  // Layouts, and what they make of the updates of all weights that are alike but for their readers.
  struct LaidOut : Entry {
    int32_t id = 0;
    std::vector<int64_t> content;  // that it follows from
    WeightLayouts layouts, pod_layouts;
    std::vector<std::vector<Part>> parts, pod_parts;  // indexed by place in updates_
    std::vector<OperatorFragment> fragments;
    std::vector<Fragment> stores;  // indexed by place in kept_tensors_
  };
  // The layouts of the weights of one class under some decisions. Used no later than what it refers to.
  struct Placed : Entry {
    Key key;
    std::shared_ptr<LaidOut> laid_out;
  };
  // Fragments of tensors of one content; where that is empty, of one tensor.
  struct Exchanged : Entry {
    TensorContent content;
    TensorFragments fragments;
  };
  // The exchange of the tensors of one class under some decisions. Used no later than what it refers
  // to.
  struct Found : Entry {
    Key key;
    std::shared_ptr<Exchanged> exchanged;
  };
  struct Bucketed : Entry {
    BucketFragment fragment;
  };
  // A choice that has a number in keys.
  template <class Choice>
  struct Numbered : Entry {
    Choice choice;
    int32_t id = 0;
  };
  template <class Choice>
  using NumberedList = std::vector<Numbered<Choice>>;
  template <class Value>
  using Kept = absl::flat_hash_map<Key, std::unique_ptr<Value>>;
  using BucketKey = std::pair<Key, std::string>;

  void FindChain();
  void FindPlaces();
  void FindDependencies();
  // False where interrupted, as Find.
  absl::StatusOr<bool> FindConfigs(const Strategy& strategy, const Interrupted& interrupted);
  absl::Status AddConfig(OpId anchor, const ParallelConfig& config);
  void Configure(OpId anchor, Configured& configured);
  bool IsOfFirstPod() const { return options_.pod_devices > 0; }
  // The fragment of an operator's parts; `layouts`: of an update.
  OperatorFragment FragmentOf(OpId op, std::span<const Part> parts,
                              const WeightLayouts* layouts) const;
  // The parts of the first pod, of each operator; none where all are wanted.
  std::vector<std::vector<Part>> PodParts(const std::vector<std::vector<Part>>& parts) const;
  absl::Status FindLayouts(const Strategy& strategy);
  void LayOut(size_t weight, const LaidOut& laid_out);
  // Fragments of the current strategy. `found`: null where they are not kept.
  void SetOperator(OpId id, const OperatorFragment& fragment);
  void SetStore(TensorId id, const Fragment& store);
  void SetTensor(TensorId id, const TensorFragments* found, StepFragments& step) const;
  // Layouts of a weight under the decisions found, with what they make; kept from those before, or new.
  absl::StatusOr<std::shared_ptr<LaidOut>> LaidOutOf(const Strategy& strategy, size_t weight);
  absl::Status AddUpdates(size_t weight, LaidOut& laid_out);
  static bool HasPrefetch(const Strategy& strategy, size_t weight);
  int32_t PlacementId(const Strategy& strategy, size_t weight);
  bool FindTensors(const Strategy& strategy, const Interrupted& interrupted);
  TensorFragmentsBuilder BuilderOf(TensorId id, const Strategy& strategy) const;
  // Places of the entries of missing(), by content, and by a tensor's class and decisions.
  struct MissingPlaces {
    absl::flat_hash_map<absl::Span<const int64_t>, size_t> by_content;
    absl::flat_hash_map<std::pair<size_t, Key>, size_t> by_decisions;
  };
  // Finds fragments of equal content for a tensor whose class has none under its decisions, `key`;
  // null, and listed by missing(), where there are none.
  const TensorFragments* FindAlike(TensorId id, const Key& key, const Strategy& strategy,
                                   MissingPlaces& places);
  // Keeps a tensor's exchange for the decisions of the strategy at hand.
  const TensorFragments* AddFound(TensorId id, Key key, std::shared_ptr<Exchanged> exchanged);
  // Whether fragments have outlines only, and may be those of several tensors.
  bool IsOutlined() const { return use_ != Use::kPlan && !options_.native_formats; }
  Key KeyOfTensor(TensorId id, std::span<const AlgorithmChoice> algorithms,
                  const Strategy& strategy);
  int32_t AlgorithmsId(size_t tensor, std::span<const AlgorithmChoice> algorithms);
  absl::Status FindBuckets(const Strategy& strategy, StepFragments& step);
  // The number of a choice in its list, to which it is added if it is new; `bytes_of` says what its
  // parts take.
  template <class Choice, class BytesOf>
  int32_t NumberOf(NumberedList<Choice>& known, const Choice& wanted, BytesOf bytes_of) {
    for (Numbered<Choice>& one : known) {
      if (one.choice != wanted) continue;
      Touch(one);
      return one.id;
    }
    Numbered<Choice>& added = known.emplace_back();
    added.choice = wanted;
    added.id = NextId();
    Enter(added, static_cast<int64_t>(sizeof(added)) + bytes_of());
    return added.id;
  }
  // Numbers a fragment, which takes so many bytes, itself included.
  void Register(Fragment& fragment, int64_t bytes);
  void Enter(Entry& entry, int64_t bytes);
  static void NoteUse(Entry& entry, int64_t find) {
    entry.last_use = std::max(entry.last_use, find);
  }
  static void NoteUse(Placed& placed, int64_t find) {
    placed.last_use = std::max(placed.last_use, find);
    NoteUse(*placed.laid_out, find);
  }
  static void NoteUse(Found& found, int64_t find) {
    found.last_use = std::max(found.last_use, find);
    NoteUse(*found.exchanged, find);
  }
  template <class Value>
  void Touch(Value& value) const {
    NoteUse(value, finds_);
  }
  // Puts another in the place of one that was in use until the call of Find before; either may be
  // null.
  template <class Value>
  void Replace(Value*& value, Value* by) const {
    if (value != nullptr) NoteUse(*value, finds_ - 1);
    value = by;
    if (value != nullptr) Touch(*value);
  }
  int32_t NextId();

  size_t WeightOfUpdate(const Operator& op) const;

  // For DropOldest (fragment_cache_limit.cc).
  void TouchHeld();
  template <class Visit>
  void VisitKept(Visit&& visit) const;
  Bytes BytesOfKept(const Fragment& fragment) const {
    return bytes_of_[static_cast<size_t>(fragment.place)];
  }
  Bytes BytesOf(const Entry& entry) const { return entry.bytes; }
  Bytes BytesOf(const Configured& one) const;
  Bytes BytesOf(const LaidOut& one) const;
  Bytes BytesOf(const Exchanged& one) const;
  Bytes BytesOf(const Bucketed& one) const { return one.bytes + BytesOfKept(one.fragment); }
  int64_t FirstKeptUse(Bytes most) const;
  template <class By, class Value>
  void DropFrom(absl::flat_hash_map<By, std::unique_ptr<Value>>& kept, int64_t first_kept);
  template <class Choice>
  void DropFrom(NumberedList<Choice>& known, int64_t first_kept);
  template <class Value>
  void DropFrom(absl::flat_hash_map<absl::Span<const int64_t>, std::shared_ptr<Value>>& kept,
                int64_t first_kept);
  void Drop(const Fragment& fragment);
  void Drop(const Configured& one);
  void Drop(const Placed& one) { bytes_ -= one.bytes; }
  void Drop(const LaidOut& one);
  void Drop(const Found& one);
  void Drop(const Exchanged& one);
  void Drop(const Bucketed& one);

  size_t ClassOf(OpId anchor) const {
    return static_cast<size_t>(classes_.of_anchor[anchor.index()]);
  }
  size_t ClassOf(size_t weight) const { return static_cast<size_t>(classes_.of_weight[weight]); }
  size_t ClassOf(TensorId id) const { return static_cast<size_t>(classes_.of_tensor[id.index()]); }

  const Graph& graph_;
  const PartitionOptions options_;
  const Use use_;

  // Facts of the graph.
  FragmentDecisions decisions_;
  FragmentClasses classes_;                       // all distinct where fragments are not shared
  std::vector<std::vector<DemandGroup>> groups_;  // indexed by TensorId
  std::vector<Link> chain_;
  ChainPlaces places_;
  std::vector<TaskRun> runs_;                 // runs of a step without buckets
  std::vector<std::vector<OpId>> followers_;  // indexed by OpId of an anchor; itself included
  std::vector<std::vector<OpId>> updates_;    // indexed by weight
  std::vector<std::vector<TensorId>> kept_tensors_;  // indexed by weight: itself and its states
  std::vector<int32_t> weight_of_;                   // indexed by TensorId; -1 for activations
  std::vector<bool> is_host_;                        // indexed by TensorId: the host reads it

  // Kept fragments, and what leads to them; indexed by class.
  std::vector<absl::flat_hash_map<ParallelConfig, std::unique_ptr<Configured>>> configs_;
  std::vector<NumberedList<WeightPlacement>> placements_;
  std::vector<Kept<Placed>> layouts_;
  std::vector<Kept<Found>> tensors_;
  // Keyed by the content that they hold.
  absl::flat_hash_map<absl::Span<const int64_t>, std::shared_ptr<LaidOut>> by_layouts_;
  absl::flat_hash_map<absl::Span<const int64_t>, std::shared_ptr<Exchanged>> by_content_;
  std::vector<NumberedList<std::vector<AlgorithmChoice>>> algorithms_;  // indexed by TensorId
  // Keyed by the members' tensors, the numbers of their fragments, their tasks, and the algorithm
  // chosen.
  absl::flat_hash_map<BucketKey, std::unique_ptr<Bucketed>> buckets_;
  int64_t fragments_ = 0;         // that have had a number
  std::vector<Bytes> bytes_of_;   // indexed by place of a fragment; of it and of its user's
  std::vector<int32_t> free_;     // places
  std::vector<int32_t> dropped_;  // places
  int32_t ids_ = 0;
  Bytes bytes_;

  // State of the current strategy.
  int64_t finds_ = 0;                       // calls of Find
  std::optional<DecisionNumbers> decided_;  // the ids of what was chosen
  std::vector<OpId> changed_anchors_;       // anchors whose followers current_ does not have yet
  StepFragments current_;                   // but for buckets and runs
  bool had_algorithms_ = false;             // where tensors were found last
  DeviceId host_device_;
  std::vector<Configured*> configured_;  // indexed by OpId of an anchor; null at first
  std::vector<Placed*> placed_;          // indexed by weight; null at first
  std::vector<Found*> found_;            // indexed by TensorId; null where they were not kept
  // The same of what is held.
  std::vector<Configured*> held_configured_;
  std::vector<Placed*> held_placed_;
  std::vector<Found*> held_found_;
  std::vector<std::span<const Part>> parts_, pod_parts_;  // indexed by OpId
  std::vector<Missing> missing_;
};

}  // namespace partita
