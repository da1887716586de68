#pragma once

#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "planner/simulator/flat_tasks.h"
#include "planner/simulator/lane_masks.h"

namespace partita {

// Tasks of a fragment that a schedule may treat as one, as long as they wait for the same time: kernels
// that are alike, each on the compute lane of another device of one block; or a single task of any kind.
struct TaskBundle {
  static constexpr int32_t kNoBlock = -1;

  int64_t duration = 0, path = 0;  // of each task; path as FlatFragment::path
  uint64_t lanes = 1;              // of the block; 1: a single task
  int32_t block = kNoBlock;
  int32_t first = 0;  // its tasks are that place of TaskBundles::tasks and the next ones, by lane

  bool is_of_kernels() const { return block != kNoBlock; }
  int32_t count() const { return std::popcount(lanes); }
};

// Bundles of all tasks of a fragment. On every lane kernels of bundles follow each other in the
// order of their keys, and so do single tasks; kernels come first.
//
// Kernels of a bundle have equal durations and paths, also where a single task of the fragment gets
// another duration: they are followed by the same single tasks, and by kernels of the same bundles.
struct TaskBundles {
  std::vector<TaskBundle> bundles;
  std::vector<int32_t> tasks;      // by bundle
  std::vector<int32_t> bundle_of;  // by task
  std::vector<int32_t> lane_of;    // by task: of the bundle's block; 0: a single task

  std::span<const int32_t> TasksOf(const TaskBundle& bundle) const {
    return {tasks.data() + bundle.first, static_cast<size_t>(bundle.count())};
  }
};

// A fragment's tasks as far as bundles depend on them. Lists are by task.
struct BundledTasks {
  const FlatTasks& tasks;
  std::span<const Nanos> durations;
  std::span<const int64_t> paths;
};

// Finds the bundles of fragments, one after another: a list as long as there are lanes is made once. Not for
// several threads.
class TaskBundler {
 public:
  // `resources` outlives this.
  explicit TaskBundler(const SimulatedResources& resources)
      : resources_(resources), on_lane_(static_cast<size_t>(resources.devices()), 0) {}

  TaskBundles Bundle(const BundledTasks& fragment);

 private:
  // What makes kernels alike: the place among those of the lane, and what follows.
  struct Likeness {
    int32_t place = 0, block = 0;
    int64_t duration = 0, path = 0;
    int32_t followers = 0;

    auto Fields() const { return std::tuple(place, block, duration, path, followers); }
  };
  class Followers;
  int32_t LaneOf(const FlatTasks& tasks, size_t task) const;
  std::vector<Likeness> LikenessOf(const BundledTasks& fragment, std::span<const int32_t> lanes);

  const SimulatedResources& resources_;
  std::vector<int32_t> on_lane_;  // kernels of each lane so far; all 0 between fragments
};

}  // namespace partita
