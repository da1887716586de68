#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "cost_model/cost_model.h"
#include "cost_model/task_costs.h"
#include "graph/task/buffer_assignment.h"
#include "graph/task/task_graph.h"
#include "planner/loads.h"
#include "planner/pods/pod_view.h"
#include "planner/simulator/flat_tasks.h"
#include "planner/simulator/graph_distances.h"
#include "planner/simulator/resource_lister.h"
#include "planner/task_bundles.h"

namespace partita {

// Nanoseconds that a task takes at least, whatever runs beside it.
int64_t LeastTime(const TaskCost& cost);

// Whether its duration does not depend on what else runs, and is of a usual length.
bool IsRegular(const TaskCost& cost);

// Least busy times of tasks, of all or of those that count, each with nothing beside it. `sums` has
// nothing in it before and after.
Loads LoadsOf(const FlatTasks& tasks, std::span<const TaskCost> costs, LoadSums& sums);
Loads LoadsOf(const FlatTasks& tasks, std::span<const TaskCost> costs, LoadSums& sums,
              absl::FunctionRef<bool(size_t task)> counts);

// All that an evaluation looks at, as flat arrays: tasks with their costs and what they hold and
// use. Of a whole step, or of a fragment, where buffers are slots.
struct FlatStep {
  FlatTasks tasks;
  std::vector<TaskCost> costs;  // indexed by task
  BufferUses uses;
};

// Rules that turn tasks into flat ones.
struct FlatteningRules {
  const SimulatedResources& resources;
  const CostModel& model;
  const MemorySizes& sizes;
  // Distances in the graph that the tasks are of; null: tasks get no subjects.
  const GraphDistances* distances = nullptr;
  // Null: tasks are those of all devices. Otherwise of fragments, which are of several pods, what the
  // first pod does is flattened; of a step it is given. Resources are the first pod's.
  const PodView* pods = nullptr;
};

FlatStep FlattenStep(const TaskGraph& graph, const FlatteningRules& rules);

// A fragment as flat arrays, its tasks connected among each other, and what simulation needs of it.
struct FlatFragment {
  FlatStep step;
  std::vector<int64_t> path;  // longest path of tasks of the fragment that begins with the task
  int64_t longest = 0;        // the longest of them
  std::vector<int32_t> key_place;  // place of each task in the order of keys
  TaskBundles bundles;
  Loads loads;        // busy time of each resource, with nothing beside the tasks
  int64_t total = 0;  // all durations
  // Whether no duration depends on what else runs, or is so long that it might be bounded.
  bool is_regular = true;
  // Numbers of the tasks that the fragment has here; -1: not there. Empty: as in the fragment.
  std::vector<int32_t> numbers;
  std::string unknown;  // why the first pod's tasks are not known (PodView); empty: they are
};
// The number of a fragment's task in its flat form; -1: it is not there.
inline int32_t NumberIn(const FlatFragment& fragment, TaskId task) {
  return fragment.numbers.empty() ? task.value() : fragment.numbers[task.index()];
}
// The number of the first such task from that place of the fragment on.
size_t NumberFrom(const FlatFragment& fragment, int32_t task);
// Memory that it takes.
Bytes BytesOf(const FlatFragment& fragment);
// Facts known of a graph's communications, in the order of their tasks; or nothing.
struct CommunicationsOfGraph {
  std::span<const TaskCost> costs = {};                  // as in PriceTasks
  std::span<const std::vector<int32_t>> resources = {};  // as in ListTasks
};

// Flattens fragments, one after another: lists as long as there are resources are made once. Not for
// several threads.
class FragmentFlattener {
 public:
  // The objects that the rules refer to outlive this.
  explicit FragmentFlattener(const FlatteningRules& rules)
      : rules_(rules),
        lister_(rules.resources),
        sums_(rules.resources.count()),
        bundler_(rules.resources) {}

  const FlatteningRules& rules() const { return rules_; }
  ResourceLister& lister() { return lister_; }
  LoadSums& sums() { return sums_; }  // for others in between; empty

  FlatFragment Flatten(const TaskGraph& graph, const CommunicationsOfGraph& communications = {});

 private:
  FlatFragment FlattenTasks(const TaskGraph& graph, const CommunicationsOfGraph& communications);

  const FlatteningRules rules_;
  ResourceLister lister_;
  LoadSums sums_;
  TaskBundler bundler_;
};

// Puts flat fragments together, in the order of the task graph. What it holds is reused.
class FlatStepBuilder {
 public:
  // Starts an empty step; `resources` and `devices` as in FlatTasks and BufferUses.
  void Start(int32_t resources, int devices, const GraphDistances* distances);
  // The fragment's tasks [begin, end), over the buffers that its slots stand for.
  struct Tasks {
    const FlatStep& fragment;
    size_t begin = 0, end = 0;
    std::span<const BufferId> slots;
    int32_t subject = 0;
  };
  void AddTasks(const Tasks& tasks);
  void AddBuffer(const BufferUses::BufferFacts& buffer) { step_.uses.buffers.push_back(buffer); }
  // Sets the control edges of the whole step, as FlatTasks::after.
  void SetAfter(std::span<const std::pair<TaskId, TaskId>> after) {
    step_.tasks.after.assign(after.begin(), after.end());
  }
  // Continues the order of keys.
  void AddKey(TaskId task) { step_.tasks.by_key.push_back(task.value()); }
  int32_t buffers() const { return static_cast<int32_t>(step_.uses.buffers.size()); }
  // Completes the step: outputs that the host reads, and the dependencies of tasks.
  const FlatStep& Finish(std::span<const HostOutput> outputs);
  // The step finished last.
  const FlatStep& step() const { return step_; }

 private:
  FlatStep step_;
};

}  // namespace partita
