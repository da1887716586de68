#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/support/strong_int.h"
#include "planner/bundled_step.h"
#include "planner/simulator/bundle_schedule.h"
#include "planner/simulator/graph_distances.h"
#include "planner/step_buckets.h"

namespace partita {

// Links in the order of the keys of their tasks: keys sort operators before tensors, each by number,
// and the tasks of a fragment have one of them.
std::vector<size_t> KeyOrder(const std::vector<ChainLink>& chain);

// Subject of a link's tasks.
int32_t SubjectOf(const GraphDistances& distances, const ChainLink& link);

// Tasks of a step for simulation alone, from step to step (BundledStep).
//
// Its schedule is that of Simulate by the priority local_path for the whole step, to the nanosecond.
class PlacedStep {
 public:
  // Cache and linker outlive this.
  PlacedStep(const FragmentCache& cache, const FragmentLinker& linker,
             const GraphDistances& distances, const SimulatedResources& resources);

  // Does what BundledStep::Update does.
  void Update(const StepFragments& step, TasksOfLink tasks_of) { step_.Update(step, tasks_of); }

  // Whether the schedule is known without a flat step: durations do not depend on what else runs,
  // and they and their sum are of usual lengths, and no edges are between links of one tensor, so
  // that the path left inside a fragment is the one left inside its subject. Precondition of
  // Simulate.
  bool CanSimulate(std::span<const JoinedTasks> joined = {}) const;
  // The length of the schedule; or, as soon as it is certain to be above the cutoff, a bound that
  // is above it. `joined`: tasks that are one, of regular durations, at most one of a link in each.
  Nanos Simulate(Nanos cutoff, std::span<const JoinedTasks> joined = {});

  // The length of the schedule, and the durations of the tasks of its CriticalChain, by subject of
  // their links: joined tasks are one of the first one's. Precondition: CanSimulate.
  struct Critical {
    Nanos length;
    std::vector<Nanos> times;
  };
  Critical FindCritical(std::span<const JoinedTasks> joined = {});

  int64_t tasks() const { return step_.tasks(); }
  // The starts of the tasks in the schedule, one link after another. Precondition: Simulate came to its
  // end, and joined no tasks.
  std::vector<Nanos> Starts() const;

 private:
  using Bundle = BundledStep::Bundle;

  // Common part of the keys of a link's tasks.
  struct LinkKeys {
    int64_t most = 0;   // longest path of all, less what is behind the link's subject
    int32_t first = 0;  // place of its bundles in the order of keys, less their place
  };
  // Start of tasks of a bundle, in the order of a schedule.
  struct Started {
    int64_t time = 0;
    uint64_t lanes = 0;
    int32_t bundle = 0;
  };
  class Simulation;
  class CriticalWalk;

  // The bits that the number of a bundle takes in the order of keys.
  int number_bits() const;
  int32_t PlaceOf(const JoinedTasks::Member& member) const {
    return step_.PlaceOf(member.link, member.task);
  }
  // Sets the work that is left to all. Returns what the busiest resource has to do.
  Nanos StartWork(std::span<const JoinedTasks> joined);
  // Sets everything to the time before the first task, but for what is left of the work.
  void Start(std::span<const JoinedTasks> joined);
  // Runs it, of StartWork's work, to its end or to where it is above the cutoff. Joined tasks stay so.
  Nanos Run(Nanos cutoff, std::span<const JoinedTasks> joined);
  void SetKeys();
  // Paths of the links of joined tasks, and the work of all, with these as one; and as they were.
  void JoinPaths(std::span<const JoinedTasks> joined);
  void FindPathsOf(size_t link);
  void JoinWork(std::span<const JoinedTasks> joined);
  // Has the first of the tasks that are one stand for all; and for itself again.
  void Join(std::span<const JoinedTasks> joined);
  void Part(std::span<const JoinedTasks> joined);
  // Place of the task that stands for that of a bundle of one (Join).
  size_t InPlaceOf(int32_t place) const {
    const int32_t pending = pending_[static_cast<size_t>(place)];
    return static_cast<size_t>(pending < 0 ? ~pending : place);
  }

  const FragmentCache& cache_;
  const GraphDistances& distances_;
  const size_t lanes_;  // compute lanes
  BundledStep step_;
  std::vector<char> yields_;          // by link: whether its communication yields (Simulate)
  const std::vector<size_t> by_key_;  // links in the order of keys
  // State of a simulation. Lists are by place of the bundle, if nothing else is said.
  // Tasks that are waited for and have not ended, as BundledStep::waits; ~place of the task that stands for
  // a joined one.
  std::vector<int32_t> pending_;
  // Counts of bundles of several tasks: BundledStep::lane_waits, from which that simulation took them.
  struct LanesPending {
    BundledStep::LaneWaits waits;
    uint32_t simulation = 0;
  };
  std::vector<LanesPending> lanes_pending_;
  uint32_t simulation_ = 0;
  std::vector<BundledStep::HighLaneCounts> high_pending_;  // by LaneWaits::high
  std::vector<LinkKeys> keys_;                             // by link
  std::vector<int32_t> numbers_;  // places of bundles that were ready, in the order of keys
  // By resource: work of tasks that have not started; of lanes of kernels, all that and the time in which
  // they had none, until the time from which on they have none.
  std::vector<int64_t> left_, rests_since_;
  std::vector<int64_t> longest_;  // by link
  std::vector<Started> started_;
  int64_t most_ = 0;  // all durations
  // Durations of joined tasks: 0 of all but the first; -1: not joined, as all are between simulations.
  std::vector<int64_t> joined_length_;
  std::vector<Bundle> parted_;                   // by bucket: the first task as it is by itself
  std::vector<BundledStep::Edge> joined_edges_;  // by bucket
  BundleState<uint64_t> list_;
};

}  // namespace partita
