#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "graph/parallel/strategy.h"
#include "graph/partition/fragment_cache.h"
#include "graph/partition/fragment_linker.h"
#include "planner/flat_step.h"
#include "planner/least_loads.h"
#include "planner/placed_step.h"
#include "planner/simulator/resource_lister.h"
#include "planner/step_buckets.h"

namespace partita {

// Strategies as schedules and flat steps, without a task graph in between: fragments are flattened
// and priced once and kept. Equal to FlattenStep(Partition(strategy)), bit for bit, and to its
// schedule. Not for several threads.
class StepCache {
 public:
  // Keeps at most `most` bytes when a strategy comes, besides what those evaluated last need; where
  // it is more, what has not been used for longest goes. `schedules`: whether
  // Simulate is wanted where it can be. Graph, and what the rules refer to, outlive the cache.
  StepCache(const Graph& graph, PartitionOptions options, const FlatteningRules& rules, Bytes most,
            bool schedules = true);

  // Whether there is a step. Otherwise it takes longer than the cutoff for certain, with a bound on
  // its time that is above the cutoff; or the search for it was interrupted.
  struct Found {
    bool has_step = false;
    Nanos bound;
    bool interrupted = false;
  };
  // When to stop, `interrupted` may be empty, once it is true it stays so; and the size up to which
  // all-reduces go in buckets by BucketRule where the strategy has none, 0: not at all.
  struct Limits {
    Nanos cutoff = kNoCutoff;
    std::function<bool()> interrupted = nullptr;
    Bytes bucket_bytes{0};

    bool is_interrupted() const { return interrupted && interrupted(); }
  };
  // Finds the step that Partition builds. Fragments that are not
  // kept are bounded by boxes alone, then by their solved exchanges, then built one at a time, all
  // as long as the busiest resource may be free before the cutoff.
  absl::StatusOr<Found> FindOrBuild(const Strategy& strategy, const Limits& limits);

  // The buckets by rule that the step found last might have: it is without, but for
  // SimulateBuckets.
  const StepBuckets& buckets() const { return buckets_; }
  // The flat form of the step found last, which lives until the next call of FindOrBuild.
  const FlatStep& Flat();
  // Whether that step's schedule by a local priority is known without it, and that (PlacedStep::Simulate).
  bool CanSimulate() const;
  Nanos Simulate(Nanos cutoff) { return placed_->Simulate(cutoff); }
  // The same with its buckets; Simulate can be, too, then.
  bool CanSimulateBuckets() const;
  Nanos SimulateBuckets(Nanos cutoff) { return placed_->Simulate(cutoff, buckets_.joined()); }
  // How long that step, with its buckets or without, what takes less, waits for each subject of the
  // distances (PlacedStep::FindCritical). Precondition: CanSimulate; CanSimulateBuckets, too, if it has
  // some.
  std::vector<Nanos> CriticalTimes();
  // The starts of its tasks in that schedule, as Flat numbers them. Precondition: Simulate was last.
  std::vector<Nanos> Starts() const;
  int64_t tasks() const { return placed_->tasks(); }
  // Memory of each device, if it had all buffers of the step found last beside each other: the most
  // that any order takes.
  std::vector<Bytes> MostMemory();

  // A collective of the step found last; `waits`: whether control edges hold it back. The task lives
  // until the next call of FindOrBuild.
  struct Collective {
    CollectiveStepId id;
    const CollectiveTask* task = nullptr;
    bool waits = false;
  };
  // In the order of the tasks. Precondition: the strategy has no buckets.
  std::vector<Collective> Collectives();

  // Memory that is taken by what is kept.
  Bytes bytes() const { return cache_.bytes(); }
  // Sets another limit, and drops what is too much. There is no step until the next FindOrBuild.
  void SetMost(Bytes most) {
    most_ = most;
    Shrink();
  }
  // Contents of tensors whose fragments were not kept when the step looked for last came.
  int64_t missing() const { return static_cast<int64_t>(cache_.missing().size()); }

 private:
  // Variants that are kept of an operator's fragment; they are few, as neighbours decide them.
  static constexpr size_t kMaxVariants = 256;
  // A fragment's flat forms.
  struct Flattened {
    std::unique_ptr<FlatFragment> plain;
    // Loads of all-reduces of so many bytes at most, which buckets may take less than.
    Bytes joinable_bytes{0};
    Loads joinable = {};
    // Facts of each slot's buffer if it is native; only where formats are chosen.
    std::vector<BufferUses::BufferFacts> native;
    std::vector<std::pair<DeviceId, Bytes>> buffers;  // memory of its own, by device
    absl::flat_hash_map<FragmentLinker::Variant, std::unique_ptr<FlatFragment>> variants;
    size_t most_variants = kMaxVariants;
  };
  // Tasks of a link in the current step.
  struct LinkState {
    const FlatFragment* flat = nullptr;
    bool is_resolved = false;  // true: kernels are changed, over these slots
    std::vector<BufferId> slots;
  };
  // Communications, in the order of their tasks.
  struct KnownCommunications {
    std::vector<TaskCost> costs;
    std::vector<std::vector<int32_t>> resources;  // that they hold

    CommunicationsOfGraph Between(size_t begin, size_t end) const {
      return {std::span(costs).subspan(begin, end - begin),
              std::span(resources).subspan(begin, end - begin)};
    }
  };
  // Tensors whose fragments are not kept, and what they load at least.
  struct Missing {
    FragmentCache::Missing* alike;
    Loads loads;  // of each
    int64_t largest = 0;
    std::optional<TensorFragmentsBuilder> solved = std::nullopt;  // perhaps with communications
    KnownCommunications communications = {};                      // of `solved`
  };

  bool HasBound(const Strategy& strategy) const;
  // False where the loads are above the cutoff, or it is interrupted, before all is built.
  absl::StatusOr<bool> BuildBelow(const Strategy& strategy, const Limits& limits);
  absl::StatusOr<bool> BuildAll(const Strategy& strategy, const Limits& limits);
  // Solves the exchanges of all, and finds the communications of each. False as BuildBelow.
  bool SolveBelow(std::vector<Missing>& missing, const Strategy& strategy, const Limits& limits);
  bool CommunicateBelow(Missing& one, const Limits& limits);
  // Adds a communication of the built pods, as the first pod's, to `loads_`; AddCommunication's result.
  Nanos AddFirstPods(const TaskBody& built);
  // Finds the communications of a solved exchange; false as soon as `judge`, of the last one, is.
  bool FindCommunications(Missing& missing, absl::FunctionRef<bool(const TaskBody&)> judge);
  // Builds tensors of one content, and flattens their fragments. Precondition: FindCommunications.
  absl::Status BuildTensors(Missing& missing, const Strategy& strategy);
  void AddLoads(const Missing& missing) {
    for (size_t k = 0; k < missing.alike->tensors.size(); ++k) loads_.Add(missing.loads);
  }
  void RemoveLoads(const Missing& missing) {
    for (size_t k = 0; k < missing.alike->tensors.size(); ++k) loads_.Remove(missing.loads);
  }
  // Makes what all kept fragments load known.
  void FindKnownLoads();
  const Fragment* FragmentToCount(size_t link) const;
  void Count(const Fragment* fragment, int32_t& counted);
  void ForgetKernels(size_t link);
  void Uncount(int32_t& counted);
  void ForgetLoads(size_t link) {
    Uncount(counted_[link]);
    seen_[link] = kNoFragment;
  }
  void AddLoadsOfTensor(TensorId id);
  // Whether the task may be in a bucket, for which its duration is no bound.
  bool IsJoinable(const TaskBody& body) const;
  const Loads& JoinableLoads(const Fragment& fragment);
  void SetBucketBytes(Bytes most);
  std::vector<Missing> MissingLoads();
  // `communications` as in FragmentFlattener.
  Flattened& FlattenedOf(const Fragment& fragment,
                         const CommunicationsOfGraph& communications = {});
  // Keeps the limit.
  void Shrink();
  void FindLinkStates();
  // InvalidArgument where the first pod's tasks are not known.
  absl::Status CheckPods();
  // The control edges between the first pod's tasks, numbered as in the flat step.
  std::vector<std::pair<TaskId, TaskId>> AfterOfPods() const;
  const FlatFragment& VariantOf(OpId id);
  void DropVariants(const Fragment& fragment, Flattened& known);
  LinkTasks TasksOf(size_t link) const;
  void AddRun(const TaskRun& run);
  // Tasks [begin, end) of a flat form.
  struct FlatRun {
    size_t begin = 0, end = 0;
  };
  void AddTasks(const FlatStep& flat, FlatRun run, std::span<const BufferId> slots,
                const ChainLink& of);
  // A task of a link that buckets take apart, as its flat form numbers it, in the flat step; one of
  // those that a bucket replaces is the bucket's.
  TaskId& SplitTask(int32_t link, int32_t number);
  // The same of any link that has been added.
  TaskId FlatTaskOf(size_t link, int32_t number) const;
  void AddKeys(size_t link);
  // Adds a fragment's own buffers, which the linker has given these numbers.
  void AddBuffers(const Fragment& fragment, const Sections::Section& numbers);

  const FlatteningRules rules_;
  Bytes most_;
  FragmentCache cache_;
  FragmentLinker link_;
  StepFragments fragments_;
  FlatStepBuilder builder_;
  // Numbers of buffers in the flat step, indexed by the linker's; and those of a link's slots.
  std::vector<BufferId> compact_, compact_slots_;
  LeastLoads loads_;
  FragmentFlattener flattener_;
  std::vector<int32_t> held_;  // by one communication
  StepBuckets buckets_;
  Bytes bucket_bytes_{0};  // of the step found last
  // Indexed by OpId: whether its kernels may be joined with others; whether those of its kind may.
  std::vector<bool> may_fuse_, keeps_kernels_;
  std::vector<Flattened> flattened_;  // indexed by Fragment::place
  // Places of the fragments whose loads are known, by link; -1: none. Numbers of the fragments that
  // links had then, also of those that have no loads to know.
  std::vector<int32_t> counted_;
  std::vector<int64_t> seen_;
  std::vector<LinkState> states_;     // indexed by link
  std::optional<PlacedStep> placed_;  // where schedules are wanted and can be
  std::vector<int32_t> first_;        // of each link's tasks in the flat step
  // Keyed by link: its tasks there, where buckets take them apart.
  absl::flat_hash_map<int32_t, std::vector<TaskId>> split_;
  bool is_flat_ = false;  // whether the builder has the current step
  // The links in the order of keys. Tasks, by link, that have no key of their own: a bucket has the
  // key of its first member.
  std::vector<size_t> key_order_;
  absl::flat_hash_set<std::pair<int32_t, int32_t>> keyless_;
};

}  // namespace partita
