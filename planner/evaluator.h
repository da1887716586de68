#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "cost_model/cost_model.h"
#include "cost_model/task_costs.h"
#include "graph/graph.h"
#include "graph/parallel/device_topology.h"
#include "graph/parallel/plan.h"
#include "graph/parallel/pods.h"
#include "graph/parallel/strategy.h"
#include "graph/partition/partition.h"
#include "graph/task/buffer_assignment.h"
#include "graph/task/task_graph.h"
#include "planner/flat_step.h"
#include "planner/pods/pod_view.h"
#include "planner/simulator/simulator.h"
#include "planner/step_cache.h"

namespace partita {

// Use of a device during a step.
struct DeviceUse {
  Nanos compute;        // time that its compute lane is busy
  Nanos communication;  // time that its communication lane is busy
  Nanos idle;           // time that neither is busy
};

// Cost of one step of a strategy.
struct Evaluation {
  // Reason why the strategy cannot run, for people; empty if it can. The verdict is its category.
  enum class Verdict : uint8_t {
    kFeasible,
    kInvalid,      // the strategy does not fit the graph or the machine; nothing else is filled in
    kOutOfMemory,  // a device's peak is above its memory; everything is filled in
    kInterrupted   // nothing is filled in
  };
  Verdict verdict = Verdict::kFeasible;
  std::string reason;

  Nanos time;  // time of a step: of the schedule, plus the cost model's overhead of a step
  int64_t tasks = 0;
  // Largest memory of tensors and scratch, indexed by device. EvaluateBriefly: at most that where it
  // certainly fits; empty beyond the cutoff.
  std::vector<Bytes> peak;
  Bytes excess;                 // kOutOfMemory: largest excess memory of a device
  std::vector<Bytes> received;  // indexed by device: what arrives from other devices
  std::vector<DeviceUse> use;   // indexed by device
  SourceCounts sources;         // tasks by source of their duration
  int64_t solved = 0;           // EvaluateBriefly: tensors whose exchanges were not kept
  Bytes bucket_bytes{0};  // EvaluateBriefly: that of the strategy's buckets; 0: it was as given

  bool feasible() const { return verdict == Verdict::kFeasible; }
  // EvaluateBriefly: it takes longer than the cutoff; its time is a bound.
  bool is_beyond() const { return feasible() && peak.empty(); }
  // EvaluateBriefly: it can run, and takes no longer than the cutoff.
  bool is_within() const { return feasible() && !is_beyond(); }
};

// Step with all intermediate results of its evaluation, for plans, timelines and reports.
struct EvaluatedStep {
  // EvaluateStep: the strategy with the algorithms that its collectives got by price.
  Strategy strategy = {};
  TaskGraph tasks;
  std::vector<TaskCost> costs;  // indexed by task
  // Duration of each task under the contention of the other devices at its time.
  std::vector<Nanos> durations;
  std::vector<TaskId> order;           // the total order in which lanes run
  const Priority* priority = nullptr;  // rule that found the order; null: it was given
  std::vector<uint32_t> draws;         // draws of urgencies by which it did (UrgenciesOf)
  BufferAssignment memory;
  Schedule schedule;  // schedule with the waits that reuse of memory adds
  Evaluation evaluation;
};

// The pods of a machine, for an evaluator of the first one.
struct PodSetting {
  DeviceTopology machine;
  Pods pods;
  Graph built;  // the training graph at the batch of PodView::BuiltOf(pods) of them
};

// A search for an order that is better than those of the rules.
struct OrderSearch {
  int64_t tries = 0;  // orders that are simulated beside those of the rules
  uint64_t seed = 0;
  std::function<bool()> interrupted = nullptr;  // may be null
  // A known order beside those of the rules, that of a rule under draws, which is tried first; none
  // where there are no draws.
  const Priority* priority = nullptr;
  std::vector<uint32_t> draws = {};
};

// Evaluates strategies of one training graph on one machine. Const and pure: several threads may
// call at once, equal strategies get equal answers. What strategies have in common is kept from one
// evaluation to the next (StepCache), for each thread that evaluates at a time.
//
// The time of a step is a function of its tasks, their costs and the order in which lanes run:
//   1. a schedule in that order as if all tasks had busy neighbours (TaskCost::time);
//   2. durations under the contention of that schedule (ContendedDurations);
//   3. the schedule in that order under these durations, with the waits that reuse of memory adds
//      (none that count where the order is that of the schedule's starts: AssignBuffers);
//   4. its length, and the cost model's overhead of a step.
// An order that is found, stored in a plan and read again therefore gives one time.
class Evaluator {
 public:
  struct Options {
    PartitionChoices choices;
    // Priority by which orders are found.
    const Priority* priority = &DefaultPriority();
    // Draws of urgencies of subjects, under which the priority is (UrgenciesOf).
    std::vector<uint32_t> draws = {};
    // Whether EvaluateBestOrder and EvaluateBrieflyInBestOrder look at the orders of other rules, too.
    bool any_priority = true;
    // Sizes as the runtime's backend will report them. Missing functions: dense buffers, no
    // scratch.
    MemorySizes sizes;
    // Infeasible where a device's peak is above Device::memory, or above memory_limit if that is not
    // 0.
    bool limit_memory = true;
    Bytes memory_limit{0};
    // Most memory that is kept from one evaluation to the next, by all caches together: each of the
    // threads that have evaluated at a time has an equal share. What the strategies at hand need
    // comes on top.
    Bytes max_cached{int64_t{768} << 20};
    // Null: steps are those of the whole machine. Otherwise of the first of several pods, of which
    // graph and topology are one's, the model the whole machine's. Strategies are one's, but for
    // buckets, which name collectives of the built pods' step.
    std::shared_ptr<const PodSetting> pods = nullptr;
    // Ends the making of whole steps, which are then Cancelled; may be null. Evaluations have their
    // own.
    const std::atomic<bool>* stop = nullptr;
  };

  // Graph and model outlive the evaluator. The model knows every task.
  Evaluator(const Graph& graph, const DeviceTopology& topology, const CostModel& model,
            Options options);
  Evaluator(const Graph& graph, const DeviceTopology& topology, const CostModel& model)
      : Evaluator(graph, topology, model, Options()) {}

  const Graph& graph() const { return graph_; }
  const DeviceTopology& topology() const { return topology_; }
  // Ok, or why the machine's pods cannot be evaluated by the first: then all strategies are invalid.
  const absl::Status& status() const { return status_; }
  const CostModel& model() const { return model_; }
  const Options& options() const { return options_; }
  // The most memory that a feasible strategy takes of a device.
  Bytes MemoryOf(DeviceId device) const;
  const GraphDistances& distances() const { return distances_; }
  // The view of the machine's pods; null where steps are those of the whole machine.
  const PodView* pod_view() const { return pod_view_.get(); }
  // Resources of the whole machine.
  const SimulatedResources& resources() const { return resources_; }
  // Options of Partition, by which collectives get the cheapest algorithms.
  PartitionOptions partition_options() const;

  // Collectives without a choice in the strategy run by the algorithm that is cheapest
  // (CheapestAlgorithm). InvalidArgument where the strategy does not fit. Running out of memory is
  // no error but a verdict.
  absl::StatusOr<EvaluatedStep> EvaluateStep(const Strategy& strategy) const;
  // The same in the order in which the step takes least, of those that the rules of Priorities()
  // find: what fits in memory first. Then, where any rule may be taken and a search is asked for,
  // urgencies of some of the subjects are drawn again and again, and kept where the step is no longer
  // than before.
  absl::StatusOr<EvaluatedStep> EvaluateBestOrder(const Strategy& strategy,
                                                  const OrderSearch& search = {}) const;
  // The same for a given task graph, run in the given order instead of the best one known.
  absl::StatusOr<EvaluatedStep> EvaluateOrder(TaskGraph tasks, std::vector<TaskId> order) const;

  // A collective of a step, and whether control edges hold it back.
  struct CollectiveOfStep {
    CollectiveStepId id;
    CollectiveTask task;
    bool waits = false;
  };
  // The collectives of a strategy without buckets, in the order of the tasks of EvaluateStep, but
  // for the places of their slices. From what the cache holds. Errors as EvaluateStep.
  absl::StatusOr<std::vector<CollectiveOfStep>> CollectivesOf(const Strategy& strategy) const;

  // Evaluates for searches: never an error, and stops early. If the time without waits for memory
  // is already above `cutoff`, memory is not looked at: time is that bound, peak is empty.
  Evaluation Evaluate(const Strategy& strategy, Nanos cutoff = kNoCutoff) const;
  // The same without `received`, `use` and `sources`: the fast way, from what the cache holds. Ends
  // soon after `interrupted`, if given, became true. The faster one is evaluated of the strategy and,
  // if bucket_bytes is not 0, WithBucketsUpTo(strategy, bucket_bytes).
  Evaluation EvaluateBriefly(const Strategy& strategy, Nanos cutoff,
                             const std::function<bool()>& interrupted = nullptr,
                             Bytes bucket_bytes = Bytes(0)) const;
  // The strategy with the buckets up to that size that BucketRule finds, where it has none. Errors as
  // EvaluateStep.
  absl::StatusOr<Strategy> WithBucketsUpTo(const Strategy& strategy, Bytes bucket_bytes) const;
  // The same in the order of EvaluateBestOrder without a search, to the end.
  Evaluation EvaluateBrieflyInBestOrder(const Strategy& strategy) const;

  // How long the step, as EvaluateBriefly times it, waits for each subject of distances(): the
  // durations of its tasks of the CriticalChain, indexed by subject. Errors as EvaluateStep.
  absl::StatusOr<std::vector<Nanos>> CriticalTimes(const Strategy& strategy,
                                                   Bytes bucket_bytes = Bytes(0)) const;

  // A strategy and its tasks as they are made: of pods (Options::pods) those of a few of them.
  // Errors as EvaluateStep.
  struct BuiltStep {
    Strategy strategy;
    TaskGraph tasks;
  };
  absl::StatusOr<BuiltStep> BuildStep(const Strategy& strategy) const;

  // Drops what no thread uses at the moment, but for at most `most` bytes of the cache that was used
  // last: for the time when one thread goes on, and other memory is needed.
  void DropKept(Bytes most) const;

 private:
  FlatteningRules rules() const {
    return {resources_, model_, options_.sizes, &distances_, pod_view_.get()};
  }
  // The graph whose fragments are built, and a strategy for it: of pods, of a few of them.
  const Graph& built() const { return options_.pods == nullptr ? graph_ : options_.pods->built; }
  absl::StatusOr<Strategy> BuiltStrategy(const Strategy& strategy) const;
  absl::StatusOr<StepCache::Found> FindIn(StepCache& cache, const Strategy& strategy,
                                          const StepCache::Limits& limits) const;
  // CriticalTimes by the flat step.
  absl::StatusOr<std::vector<Nanos>> CriticalTimesOfFlat(const Strategy& strategy,
                                                         Bytes bucket_bytes) const;
  // EvaluateStep up to its tasks.
  absl::StatusOr<EvaluatedStep> TasksOf(const Strategy& strategy) const;
  // The start of TimeInOrder: an order, and the schedule in it where every task has busy
  // neighbours. Finding: the order in which the schedule of Simulate starts tasks; following: the
  // step's.
  void FindOrder(const FlatStep& flat, const Priority& priority, std::vector<uint32_t> draws,
                 EvaluatedStep& step) const;
  void FollowOrder(const FlatStep& flat, EvaluatedStep& step) const;
  // The definition of a step's time (see Evaluator), for all orders, in two halves.
  // The first tells whether what else runs lengthens tasks; if not, the second leaves the time of an
  // order that was found as it is.
  bool TimeInOrder(const FlatStep& flat, EvaluatedStep& step) const;
  void PlaceBuffers(const FlatStep& flat, EvaluatedStep& step) const;
  // Finds what memory an order needs, which nothing else lengthens, without the places.
  void FindPeaks(const FlatStep& flat, EvaluatedStep& step) const;
  // FindPeaks of what the cache simulated last, to the end.
  void FindPeaksOfSchedule(StepCache& cache, EvaluatedStep& step) const;
  // FindOrder and TimeInOrder by every rule, or by the only one, and of a search; the best. Buffers are
  // placed, or peaks found, only where it matters.
  void TimeInBestOrder(const FlatStep& flat, const OrderSearch& search, EvaluatedStep& step) const;
  // EvaluateBriefly of the step that the cache found last, without the buckets that it might have;
  // and with or without, for that strategy.
  void EvaluateKept(StepCache& cache, Nanos cutoff, EvaluatedStep& step) const;
  absl::Status EvaluateFaster(StepCache& cache, const Strategy& strategy, Nanos cutoff,
                              EvaluatedStep& step) const;
  // Whether all buffers of the step that the cache found last fit beside each other: `peak` is what
  // they take then. Precondition: the step's order is that of its schedule (StepCache::CanSimulate).
  bool FitsAtMost(StepCache& cache, Evaluation& evaluation) const;
  // Whether devices have that much memory each; always where it is not limited.
  bool Fits(const std::vector<Bytes>& memory) const;
  Nanos TimeOf(const FlatStep& flat, const Schedule& schedule) const;
  static void AddFigures(EvaluatedStep& step);
  std::unique_ptr<StepCache> TakeCache() const;
  void ReturnCache(std::unique_ptr<StepCache> cache) const;
  // The part of max_cached that each cache may take. The caller holds mutex_.
  Bytes ShareOfCache() const { return Bytes(options_.max_cached.value() / caches_); }

  const Graph& graph_;
  const CostModel& model_;
  Options options_;
  const DeviceTopology topology_;
  SimulatedResources resources_;
  const GraphDistances distances_;
  std::unique_ptr<const PodView> pod_view_;
  absl::Status status_;
  mutable std::mutex mutex_;    // guards what follows
  mutable int64_t caches_ = 0;  // that there are, idle or not
  // A cache that no thread uses at the moment, and the thread that used it last: that comes with
  // strategies like those before.
  struct IdleCache {
    std::unique_ptr<StepCache> cache;
    std::thread::id user;
  };
  mutable std::vector<IdleCache> idle_;  // by last use
};

// The largest peak memory of a device; 0 where none is known.
Bytes LargestPeakOf(const Evaluation& evaluation);
// The part of a plan that an evaluation fills in.
Prediction PredictionOf(const Evaluation& evaluation);
// Gives a plan the order of its step, and the rule that found it.
void SetOrder(const EvaluatedStep& step, Plan& plan);

}  // namespace partita
