#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/support/sections.h"
#include "planner/simulator/flat_tasks.h"
#include "planner/simulator/lane_masks.h"
#include "planner/step_edges.h"

namespace partita {

// Tasks of a step in bundles (TaskBundle), from step to step: those of each link of the chain stay where
// they are, with the edges among them, as long as neither their own tasks nor those around them change.
// Not for several threads.
class BundledStep {
 public:
  // Edges of a bundle to another one: from the tasks of some lanes, each to the task whose lane is `turn`
  // further, modulo 64. From a single task to kernels: to the tasks of these lanes. To a bundle of one
  // task: as many as there are lanes.
  struct Edge {
    static constexpr int32_t kToOne = -1;

    uint64_t lanes = 0;
    int32_t to = 0;
    int32_t turn = 0;

    bool leads_to_one() const { return turn == kToOne; }
  };
  // Tasks of a bundle that wait for nothing.
  struct First {
    int32_t bundle = 0;  // its place
    uint64_t lanes = 0;
  };
  // Facts that a simulation looks at, but for what tasks wait for, in one cache line.
  struct alignas(64) Bundle {
    int64_t duration = 0;
    int64_t path = 0;    // the path left inside its fragment
    uint64_t lanes = 0;  // 0: a gap
    union {  // of a single task: what it holds; of one kernel: bundles of one that follow it
      const int32_t* list = nullptr;
      int32_t resource;  // where it holds one
    };
    const Edge* edges = nullptr;  // the other ones to bundles that follow
    int32_t list_count = 0;
    int32_t edge_count = 0;
    int32_t shared_edges = 0;  // the first ones: of several lanes, or of one task; the rest by lane
    int32_t block = TaskBundle::kNoBlock;
    int32_t link = 0;

    bool is_of_kernels() const { return block != TaskBundle::kNoBlock; }
    bool is_one() const { return IsOneLane(lanes); }
    std::span<const int32_t> held() const {
      return {list_count == 1 ? &resource : list, static_cast<size_t>(list_count)};
    }
    std::span<const int32_t> followers() const {
      return {is_of_kernels() ? list : nullptr,
              is_of_kernels() ? static_cast<size_t>(list_count) : 0};
    }
  };
  // Predecessors of the kernels of a bundle.
  struct LaneWaits {
    SmallLaneCounts counts;
    int32_t high = -1;  // place in high_waits(), where counts are no small ones
  };
  using HighLaneCounts = std::array<uint64_t, 28>;  // further planes of SmallLaneCounts

  // Cache and linker outlive this.
  BundledStep(const FragmentCache& cache, const FragmentLinker& linker,
              const SimulatedResources& resources);

  // Puts the tasks of the links that the linker has just linked anew in the place of theirs before,
  // which live until the next call.
  // Where a link's first task is, is known here: LinkTasks::first is not looked at.
  void Update(const StepFragments& step, TasksOfLink tasks_of);

  // Whether all durations are of a usual length and depend on nothing else, and no edges are between
  // links of one tensor.
  bool is_regular() const { return irregular_ == 0 && within_tensors_ == 0; }
  int64_t total() const { return total_; }  // all durations
  int64_t tasks() const { return tasks_in_all_; }
  std::span<const int64_t> work() const { return work_; }  // by resource: of all tasks

  size_t links() const { return fragments_.size(); }
  const FlatFragment& fragment(size_t link) const { return *fragments_[link]; }
  int64_t longest(size_t link) const { return fragments_[link]->longest; }

  // Bundles by place. Simulations put back what they change.
  std::vector<Bundle>& bundles() { return bundles_; }
  const std::vector<Bundle>& bundles() const { return bundles_; }
  const Sections::Section& BundlesOf(size_t link) const { return bundle_sections_[link]; }
  int32_t PlaceOf(size_t link, size_t task) const {
    return bundle_sections_[link].begin + fragments_[link]->bundles.bundle_of[task];
  }
  // Number of a bundle within its link: the order of keys, among kernels and among single tasks.
  int32_t NumberOf(size_t place) const {
    const auto link = static_cast<size_t>(bundles_[place].link);
    return static_cast<int32_t>(place) - bundle_sections_[link].begin;
  }
  int32_t bundles_in_all() const { return bundles_in_all_; }
  // Predecessors of each bundle's task, by its place, where it is one; and of several tasks, by lane.
  const std::vector<int32_t>& waits() const { return waits_; }
  const std::vector<LaneWaits>& lane_waits() const { return lane_waits_; }
  const std::vector<HighLaneCounts>& high_waits() const { return high_waits_; }
  std::span<const First> FirstOf(size_t link) const { return first_of_[link]; }

 private:
  // Bundle of a task.
  struct TaskAt {
    int32_t bundle = 0;
    int16_t lane = 0;
    bool is_one = false;  // the bundle's only task
  };

  // Whether an edge from a task of that link is between two links of one tensor.
  bool IsWithinTensor(const StepEdges::Edge& edge, int32_t from) const;
  void Clear();
  void RemoveWork(size_t link);
  void Place(size_t link, const FlatFragment& fragment);
  void PlaceBundles(size_t link, const FlatFragment& fragment);
  // Whether edges of the link lead to bundles that have been placed anew.
  bool LeadsToReplaced(size_t link) const;
  void MarkWaits(int32_t link);
  void FindWaits(size_t link);
  void FindLaneWaits(size_t link, const TaskBundle& bundle, LaneWaits& waits);
  void DropHigh(LaneWaits& waits);
  void FindFirst(size_t link);
  void FindEdges(size_t link);
  void AddEdges(size_t link, const TaskBundle& from);
  // The edge from a task on that lane; whether it is one with another edge, to which its lanes are added.
  static Edge EdgeTo(const TaskAt& to, const TaskBundle& from, int lane);
  static bool Joins(Edge& known, const Edge& edge);

  const FragmentCache& cache_;
  const FragmentLinker& linker_;
  StepEdges edges_;
  Sections sections_;                           // of tasks, owned by links
  Sections bundle_sections_;                    // of bundles, owned by links
  std::vector<const FlatFragment*> fragments_;  // by link; null at first
  std::vector<int32_t> predecessors_;           // by task's place: how many tasks it waits for
  std::vector<int32_t> link_of_;                // by task's place
  std::vector<TaskAt> at_;                      // by task's place
  std::vector<Bundle> bundles_;
  std::vector<int32_t> waits_;
  std::vector<LaneWaits> lane_waits_;
  std::vector<HighLaneCounts> high_waits_;
  std::vector<int32_t> unused_high_;          // places there that are not in use
  std::vector<std::vector<First>> first_of_;  // by link
  struct LinkEdges {
    std::vector<Edge> edges;
    std::vector<int32_t> followers;  // Bundle::followers
  };
  std::vector<LinkEdges> edges_of_;  // by link
  std::vector<int64_t> work_;
  int64_t total_ = 0, tasks_in_all_ = 0;
  int32_t bundles_in_all_ = 0;
  int64_t within_tensors_ = 0;      // edges between links of one tensor
  int irregular_ = 0;               // links with other durations than is_regular wants
  std::vector<char> has_siblings_;  // by link: whether it is one of several of a tensor
  // Links whose tasks have other predecessors than before, each once, while they are updated.
  std::vector<int32_t> changed_waits_;
  std::vector<char> has_changed_waits_;  // by link
  std::vector<char> is_replaced_;        // by link: whether this update has placed its tasks
  // Last edge to a bundle, by its place, of that bundle (FindEdges numbers them as it goes).
  struct LastEdge {
    int64_t from = -1;
    size_t edge = 0;
  };
  std::vector<LastEdge> last_edges_;
  int64_t found_ = 0;  // bundles whose edges have been found so far
};

}  // namespace partita
