#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/support/sections.h"
#include "graph/support/strong_int.h"
#include "planner/simulator/flat_tasks.h"
#include "planner/simulator/graph_distances.h"
#include "planner/simulator/list_schedule.h"
#include "planner/step_buckets.h"
#include "planner/step_edges.h"

namespace partita {

// Links in the order of the keys of their tasks: keys sort operators before tensors, each by number,
// and the tasks of a fragment have one of them.
std::vector<size_t> KeyOrder(const std::vector<ChainLink>& chain);

// Subject of a link's tasks.
int32_t SubjectOf(const GraphDistances& distances, const ChainLink& link);

// Tasks of a step for simulation alone, from step to step: those of each link of the chain stay
// where they are, with their edges and the paths among them, as long as neither their own tasks nor
// those around them change. Not for several threads.
//
// Its schedule is that of Simulate by the priority local_path for the whole step, to the nanosecond.
class PlacedStep {
 public:
  // Cache and linker outlive this.
  PlacedStep(const FragmentCache& cache, const FragmentLinker& linker,
             const GraphDistances& distances, const SimulatedResources& resources);

  // Puts the tasks of the links that the linker has just linked anew in the place of theirs before,
  // which live until the next call.
  // Where a link's first task is, is known here: LinkTasks::first is not looked at.
  void Update(const StepFragments& step, TasksOfLink tasks_of);

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

  int64_t tasks() const { return tasks_in_all_; }
  // Appends the starts of a link's tasks in the schedule. Precondition: Simulate came to its end,
  // and joined no tasks.
  void AddStarts(size_t link, std::vector<Nanos>& starts) const;

 private:
  // All that a simulation looks at, but for what it waits for, in one cache line.
  struct alignas(64) Task {
    int64_t duration = 0;
    int64_t path = 0;  // the path left inside its fragment
    union {            // what it holds
      const int32_t* resources = nullptr;
      int32_t resource;  // where resource_count is 1
    };
    const int32_t* successors = nullptr;  // of its own link, counted within that
    const int32_t* others = nullptr;      // successors of other links
    int32_t resource_count = 0, successor_count = 0, other_count = 0;
    int32_t first = 0;  // the first task of its link
    int32_t link = 0;
    int32_t key_place = 0;  // in the order of keys of its link
  };
  // Common part of the keys of a link's tasks.
  struct LinkKeys {
    int64_t most = 0;   // longest path of all, less what is behind the link's subject
    int32_t first = 0;  // place of the first of its tasks in the order of keys
  };
  class Simulation;
  class TracedSimulation;
  static std::span<const int32_t> ResourcesOf(const Task& task) {
    return {task.resource_count == 1 ? &task.resource : task.resources,
            static_cast<size_t>(task.resource_count)};
  }

  // Whether an edge from a task of that link is between two links of one tensor.
  bool IsWithinTensor(const StepEdges::Edge& edge, int32_t from) const;
  void RemoveWork(size_t link);
  void Place(size_t link, const FlatFragment& fragment);
  void SetPaths(size_t link);  // of the fragment alone
  void PointToOthers(size_t link);
  // The bits that the number of a task takes in the order of keys, and its place.
  int number_bits() const;
  int place_bits() const;
  size_t PlaceOf(const JoinedTasks::Member& member) const {
    return static_cast<size_t>(sections_[member.link].begin) + member.task;
  }
  // The place in the order of keys of the task at a place.
  int32_t NumberOf(size_t place) const {
    return keys_[static_cast<size_t>(tasks_[place].link)].first + tasks_[place].key_place;
  }
  // Sets the work that is left to all. Returns what the busiest resource has to do.
  Nanos StartWork(std::span<const JoinedTasks> joined);
  // Sets everything to the time before the first task, but for what is left of the work.
  void Start(std::span<const JoinedTasks> joined);
  // Runs it, of StartWork's work, to its end or to where the simulation ends it.
  template <class Simulated>
  void Run(Simulated& simulation, std::span<const JoinedTasks> joined);
  void SetKeys();
  void FindFirst();
  // Paths of the links of joined tasks, and the work of all, with these as one; and as they were.
  void JoinPaths(std::span<const JoinedTasks> joined);
  void FindPathsOf(size_t link);
  void JoinWork(std::span<const JoinedTasks> joined);
  // Has the first of the tasks that are one stand for all; and for itself again.
  void Join(std::span<const JoinedTasks> joined);
  void Part(std::span<const JoinedTasks> joined);

  const FragmentCache& cache_;
  const FragmentLinker& linker_;
  const GraphDistances& distances_;
  StepEdges edges_;
  Sections sections_;                           // of tasks, owned by links
  std::vector<const FlatFragment*> fragments_;  // indexed by link; null at first
  std::vector<Task> tasks_;                     // by place
  std::vector<int32_t> predecessors_;           // by place: how many tasks it waits for; -1: a gap
  std::vector<int64_t> longest_;                // by link: the longest of them
  std::vector<int64_t> work_;                   // by resource: of all tasks
  int64_t total_ = 0;                           // all durations
  int64_t tasks_in_all_ = 0;
  int64_t within_tensors_ = 0;        // edges between links of one tensor
  int irregular_ = 0;                 // links with other tasks than CanSimulate wants
  std::vector<char> yields_;          // by link: whether its communication yields (Simulate)
  std::vector<char> has_siblings_;    // by link: whether it is one of several of a tensor
  const std::vector<size_t> by_key_;  // links in the order of keys
  // State of a simulation.
  std::vector<int64_t> starts_;  // by place
  // By place: tasks that it waits for and that have not ended; ~place of the task that stands for it.
  std::vector<int32_t> pending_;
  std::vector<LinkKeys> keys_;    // by link
  std::vector<int32_t> numbers_;  // places of tasks that were ready, in the order of keys
  std::vector<int32_t> first_;    // places of tasks that wait for none
  std::vector<int64_t> left_;     // by resource: work of tasks that have not started
  int64_t most_ = 0;              // all durations
  // Time that the path takes with a joined task, by place: 0 for all but the first; -1: not joined, as
  // all are between simulations.
  std::vector<int64_t> joined_length_;
  std::vector<Task> parted_;                // by bucket: the first task as it is by itself
  std::vector<int32_t> joined_successors_;  // by bucket
  ListState<uint64_t> list_;
};

}  // namespace partita
