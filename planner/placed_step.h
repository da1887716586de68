#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/support/sections.h"
#include "graph/support/strong_int.h"
#include "planner/simulator/graph_distances.h"
#include "planner/step_edges.h"

namespace partita {

// Tasks of a step for simulation alone, from step to step: those of each link of the chain stay
// where they are, with their edges and their places in the order of priority, as long as neither
// their own tasks nor those around them change. Not for several threads.
//
// Its schedule is that of Simulate by the priority local_path for the whole step, to the nanosecond.
class PlacedStep {
 public:
  // Cache and linker outlive this.
  PlacedStep(const FragmentCache& cache, const FragmentLinker& linker,
             const GraphDistances& distances, int resources);

  // Puts the tasks of the links that the linker has just linked anew in the place of theirs before,
  // which live until the next call.
  // Where a link's first task is, is known here: LinkTasks::first is not looked at.
  void Update(const StepFragments& step, TasksOfLink tasks_of);

  // Whether the schedule is known without a flat step: durations do not depend on what else runs,
  // and are of usual lengths, and no edges are between links of one tensor, so that the path left
  // inside a fragment is the one left inside its subject. Precondition of Simulate.
  bool CanSimulate() const { return irregular_ == 0 && within_tensors_ == 0; }
  // The length of the schedule; or, as soon as it is certain to be above the cutoff, a bound that
  // is above it.
  Nanos Simulate(Nanos cutoff);

  int64_t tasks() const { return tasks_in_all_; }
  // Appends the starts of a link's tasks in the schedule. Precondition: Simulate came to its end.
  void AddStarts(size_t link, std::vector<Nanos>& starts) const;

 private:
  struct Task {
    int64_t duration = 0;
    const int32_t* resources = nullptr;   // what it holds
    const int32_t* successors = nullptr;  // of its own link, counted within that
    const int32_t* others = nullptr;      // successors of other links
    int32_t resource_count = 0, successor_count = 0, other_count = 0;
    int32_t first = 0;     // the first task of its link
    int32_t resource = 0;  // the first that it holds
  };
  // State of a task in a simulation.
  struct State {
    int64_t ready = 0;    // when it has left the heap: its start
    int32_t pending = 0;  // predecessors without an end
    int32_t rank = 0;
  };
  // Links of equal distance from the end of the graph, in the order of keys, and their tasks by
  // priority and key.
  struct Level {
    std::vector<int32_t> links;
    std::vector<int32_t> order;
    bool is_stale = false;
  };
  struct Resource {
    int64_t free_at = 0;
    int64_t left = 0;  // work of tasks that have not been served
  };

  void FindLevels(const GraphDistances& distances);
  // Whether it is between two links of one tensor.
  bool IsWithinTensor(const StepEdges::Edge& edge) const;
  void RemoveWork(size_t link);
  void Place(size_t link, const FlatFragment& fragment);
  void PointToOthers(size_t link);
  void OrderLevel(Level& level);
  // Sets everything to the time before the first task. Without the tasks that wait for none.
  void Start();
  template <class Key>
  Nanos RunEvents(int64_t cutoff);

  const FragmentCache& cache_;
  const FragmentLinker& linker_;
  StepEdges edges_;
  Sections sections_;                           // of tasks, owned by links
  std::vector<const FlatFragment*> fragments_;  // indexed by link; null at first
  std::vector<Task> tasks_;                     // by place
  std::vector<int32_t> predecessors_;           // by place: how many
  std::vector<int32_t> order_;                  // by place: its own in the order of its level
  std::vector<int64_t> path_;                   // by place: the path left inside its fragment
  std::vector<int64_t> work_;                   // by resource: of all tasks
  int64_t total_ = 0;                           // all durations
  int64_t tasks_in_all_ = 0;
  std::vector<int32_t> link_;   // by place
  int64_t within_tensors_ = 0;  // edges between links of one tensor
  int irregular_ = 0;           // links with other tasks than CanSimulate wants
  std::vector<Level> levels_;   // farthest from the end first
  std::vector<int32_t> level_of_link_;
  // State of a simulation.
  std::vector<int32_t> level_begin_;  // by level: the rank of its first task
  std::vector<int32_t> by_rank_;      // tasks
  std::vector<State> states_;         // by place
  std::vector<int32_t> sources_;      // ranks of tasks that wait for none
  std::vector<Resource> resources_;
  std::vector<int32_t> merged_;
};

}  // namespace partita
