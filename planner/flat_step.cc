#include "planner/flat_step.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/support/heap_bytes.h"
#include "planner/simulator/priorities.h"

namespace partita {
namespace {

// Rows of a list: row t is [begin[t], begin[t + 1]) of the values.
struct Rows {
  const std::vector<int32_t>& begin;
  size_t first, last;  // rows [first, last)

  size_t values_from() const { return static_cast<size_t>(begin[first]); }
  size_t values_to() const { return static_cast<size_t>(begin[last]); }
};

// Appends where rows of another list begin.
void AppendRows(const Rows& more, std::vector<int32_t>& begin) {
  const int32_t base = begin.back() - more.begin[more.first];
  for (size_t t = more.first + 1; t <= more.last; ++t) begin.push_back(base + more.begin[t]);
}

template <class List>
void AppendRange(const List& more, size_t from, size_t to, List& list) {
  list.insert(list.end(), more.begin() + static_cast<std::ptrdiff_t>(from),
              more.begin() + static_cast<std::ptrdiff_t>(to));
}

// Durations up to this are simulated as they are: the sum of a step's fits 62 bits.
constexpr int64_t kLongestRegular = int64_t{1} << 38;

// Leaves out what tasks of the first pod do not wait for. Returns a channel that a task inside the
// pod holds and other pods' tasks, too; -1 where there is none.
int32_t KeepHeldResources(const SimulatedResources& resources, const PodView& pods,
                          FlatTasks& tasks) {
  int32_t kept = 0, begin = 0, found = -1;
  for (size_t t = 0; t + 1 < tasks.resource_begin.size(); ++t) {
    const int32_t end = tasks.resource_begin[t + 1];
    bool is_inside = true;
    int32_t shared = -1;
    for (int32_t k = begin; k < end; ++k) {
      const int32_t resource = tasks.resource_of[static_cast<size_t>(k)];
      is_inside &= !resources.IsLane(resource) || pods.IsOwn(resource);
      if (pods.IsShared(resource)) shared = resource;
      if (pods.IsHeld(resource)) tasks.resource_of[static_cast<size_t>(kept++)] = resource;
    }
    if (is_inside && shared >= 0) found = shared;
    begin = end;
    tasks.resource_begin[t + 1] = kept;
  }
  tasks.resource_of.resize(static_cast<size_t>(kept));
  return found;
}

FlatStep ListAndConnect(const TaskGraph& graph, const FlatteningRules& rules,
                        ResourceLister& lister, const CommunicationsOfGraph& communications,
                        int32_t* shared = nullptr) {
  FlatStep step;
  step.tasks = ListTasks(graph, lister, communications.resources);
  if (rules.pods != nullptr) {
    const int32_t found = KeepHeldResources(rules.resources, *rules.pods, step.tasks);
    if (shared != nullptr) *shared = found;
  }
  step.costs = PriceTasks(graph, rules.model, communications.costs);
  step.uses = FindBufferUses(graph, rules.sizes);
  ConnectTasks(step.uses, step.tasks);
  return step;
}

}  // namespace

int64_t LeastTime(const TaskCost& cost) {
  return std::min({cost.time.value(), cost.Uncontended().value(), kLongestRegular});
}

bool IsRegular(const TaskCost& cost) {
  return cost.time == Nanos(LeastTime(cost)) && cost.Uncontended() == cost.time;
}

Loads LoadsOf(const FlatTasks& tasks, std::span<const TaskCost> costs, LoadSums& sums) {
  return LoadsOf(tasks, costs, sums, [](size_t) { return true; });
}

Loads LoadsOf(const FlatTasks& tasks, std::span<const TaskCost> costs, LoadSums& sums,
              absl::FunctionRef<bool(size_t task)> counts) {
  for (size_t t = 0; t < costs.size(); ++t) {
    if (!counts(t)) continue;
    const int64_t time = LeastTime(costs[t]);
    for (int32_t resource : tasks.ResourcesOf(t)) sums.Add(resource, time);
  }
  return sums.Take();
}

size_t NumberFrom(const FlatFragment& fragment, int32_t task) {
  if (fragment.numbers.empty()) return static_cast<size_t>(task);
  const auto in_front = std::span(fragment.numbers).first(static_cast<size_t>(task));
  return static_cast<size_t>(
      std::count_if(in_front.begin(), in_front.end(), [](int32_t number) { return number >= 0; }));
}

Bytes BytesOf(const FlatFragment& fragment) {
  const FlatTasks& tasks = fragment.step.tasks;
  const BufferUses& uses = fragment.step.uses;
  return Bytes(HeapBytesOfAllocation(sizeof(FlatFragment)) +
               HeapBytesOf(tasks.successor_begin, tasks.successors, tasks.resource_begin,
                           tasks.resource_of, tasks.predecessor_count, tasks.by_key, tasks.after,
                           tasks.subject_of) +
               HeapBytesOf(uses.buffers, uses.is_communication, uses.use_begin, uses.uses,
                           uses.overwrite_begin, uses.overwrites, uses.scratch) +
               HeapBytesOf(fragment.bundles.bundles, fragment.bundles.tasks,
                           fragment.bundles.bundle_of, fragment.bundles.lane_of) +
               HeapBytesOf(fragment.step.costs, fragment.path, fragment.key_place, fragment.loads,
                           fragment.numbers));
}

FlatFragment FragmentFlattener::FlattenTasks(const TaskGraph& graph,
                                             const CommunicationsOfGraph& communications) {
  int32_t shared = -1;
  FlatFragment fragment;
  fragment.step = ListAndConnect(graph, rules_, lister_, communications, &shared);
  if (shared >= 0) {
    fragment.unknown =
        absl::StrCat("how other pods use '", rules_.pods->name(shared), "' meanwhile is not known");
  }
  const FlatStep& step = fragment.step;
  const std::vector<Nanos> durations = DurationsOf(step.costs);
  fragment.path = RemainingPaths(step.tasks, durations);
  for (int64_t path : fragment.path) fragment.longest = std::max(fragment.longest, path);
  fragment.key_place.resize(step.tasks.by_key.size());
  for (size_t k = 0; k < step.tasks.by_key.size(); ++k) {
    fragment.key_place[static_cast<size_t>(step.tasks.by_key[k])] = static_cast<int32_t>(k);
  }
  fragment.bundles = bundler_.Bundle({step.tasks, durations, fragment.path});
  fragment.loads = LoadsOf(step.tasks, step.costs, sums_);
  for (const TaskCost& cost : step.costs) {
    fragment.is_regular &= IsRegular(cost);
    fragment.total += LeastTime(cost);
  }
  return fragment;
}

FlatFragment FragmentFlattener::Flatten(const TaskGraph& graph,
                                        const CommunicationsOfGraph& communications) {
  if (rules_.pods == nullptr) return FlattenTasks(graph, communications);
  if (rules_.pods->IsInFirstPod(graph)) return FlattenTasks(graph, {});
  auto first = rules_.pods->FirstPodOf(graph);
  if (first.ok()) {
    FlatFragment fragment = FlattenTasks(first->tasks, {first->communications, {}});
    fragment.numbers = std::move(first->numbers);
    return fragment;
  }
  FlatFragment unknown = FlattenTasks(graph.WithTasks({}, graph.devices()), {});
  unknown.numbers.assign(graph.tasks().size(), -1);
  unknown.unknown = std::string(first.status().message());
  return unknown;
}

FlatStep FlattenStep(const TaskGraph& graph, const FlatteningRules& rules) {
  ResourceLister lister(rules.resources);
  FlatStep step = ListAndConnect(graph, rules, lister, {});
  if (rules.distances == nullptr) return step;
  step.tasks.distances = rules.distances;
  for (const Task& task : graph.tasks()) {
    step.tasks.subject_of.push_back(rules.distances->SubjectOf(task.key));
  }
  return step;
}

void FlatStepBuilder::Start(int32_t resources, int devices, const GraphDistances* distances) {
  FlatTasks& tasks = step_.tasks;
  tasks.subject_of.clear();
  tasks.distances = distances;
  tasks.resources = resources;
  tasks.resource_begin.assign(1, 0);
  tasks.resource_of.clear();
  tasks.by_key.clear();
  tasks.after.clear();
  step_.costs.clear();
  BufferUses& uses = step_.uses;
  uses.devices = devices;
  uses.buffers.clear();
  uses.is_communication.clear();
  uses.use_begin.assign(1, 0);
  uses.uses.clear();
  uses.overwrite_begin.assign(1, 0);
  uses.overwrites.clear();
  uses.scratch.clear();
}

void FlatStepBuilder::AddTasks(const Tasks& added) {
  const auto& [fragment, begin, end, slots, subject] = added;
  const FlatTasks& from = fragment.tasks;
  FlatTasks& tasks = step_.tasks;
  if (tasks.distances != nullptr) {
    tasks.subject_of.insert(tasks.subject_of.end(), end - begin, subject);
  }
  const Rows resources{from.resource_begin, begin, end};
  AppendRows(resources, tasks.resource_begin);
  AppendRange(from.resource_of, resources.values_from(), resources.values_to(), tasks.resource_of);
  AppendRange(fragment.costs, begin, end, step_.costs);
  const BufferUses& used = fragment.uses;
  BufferUses& uses = step_.uses;
  AppendRange(used.is_communication, begin, end, uses.is_communication);
  const Rows rows{used.use_begin, begin, end};
  AppendRows(rows, uses.use_begin);
  for (size_t k = rows.values_from(); k < rows.values_to(); ++k) {
    uses.uses.push_back({slots[used.uses[k].buffer.index()], used.uses[k].writes});
  }
  const Rows overwrites{used.overwrite_begin, begin, end};
  AppendRows(overwrites, uses.overwrite_begin);
  for (size_t k = overwrites.values_from(); k < overwrites.values_to(); ++k) {
    const BufferUses::Overwrite& row = used.overwrites[k];
    uses.overwrites.push_back({slots[row.from.index()], slots[row.to.index()]});
  }
  // Kernels' only, whose fragments are never taken apart.
  uses.scratch.insert(uses.scratch.end(), used.scratch.begin(), used.scratch.end());
}

const FlatStep& FlatStepBuilder::Finish(std::span<const HostOutput> outputs) {
  for (const HostOutput& output : outputs) {
    step_.uses.buffers[output.buffer.index()].host_reads = true;
  }
  ConnectTasks(step_.uses, step_.tasks);
  return step_;
}

}  // namespace partita
