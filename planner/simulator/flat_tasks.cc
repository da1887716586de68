#include "planner/simulator/flat_tasks.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/support/check.h"
#include "graph/support/sort.h"
#include "graph/task/dependencies.h"
#include "planner/simulator/resource_lister.h"

namespace partita {
namespace {

// "0-3", "0,2,5": what the eye takes in.
std::string CoreText(const std::vector<int>& cores) {
  const bool is_run =
      cores.size() > 2 && cores.back() - cores.front() == static_cast<int>(cores.size()) - 1;
  if (is_run) return absl::StrCat(cores.front(), "-", cores.back());
  std::string text;
  for (int core : cores) absl::StrAppend(&text, text.empty() ? "" : ",", core);
  return text;
}

// Fills in by_key. Tasks of one subject are neighbours in a task graph already, so buckets by
// subject first, each sorted by itself, cost less than one sort of all.
void OrderByKey(const TaskGraph& graph, std::vector<int32_t>& by_key) {
  const auto tasks = graph.tasks();
  if (tasks.empty()) return;
  int32_t first_subject = tasks[0].key.subject, last_subject = first_subject;
  for (const Task& task : tasks) {
    first_subject = std::min(first_subject, task.key.subject);
    last_subject = std::max(last_subject, task.key.subject);
  }
  const int32_t subjects = last_subject - first_subject + 1;
  const auto bucket_of = [&](const TaskKey& key) {
    return static_cast<size_t>(key.subject - first_subject + (key.of_tensor ? subjects : 0));
  };
  std::vector<int32_t> begin(2 * static_cast<size_t>(subjects) + 1, 0);
  for (const Task& task : tasks) ++begin[bucket_of(task.key) + 1];
  for (size_t b = 1; b < begin.size(); ++b) begin[b] += begin[b - 1];
  std::vector<int32_t> next(begin.begin(), begin.end() - 1);
  by_key.resize(tasks.size());
  for (const Task& task : tasks) {
    by_key[static_cast<size_t>(next[bucket_of(task.key)]++)] = task.id.value();
  }
  const auto less = [&](int32_t a, int32_t b) {
    const TaskKey& x = tasks[static_cast<size_t>(a)].key;
    const TaskKey& y = tasks[static_cast<size_t>(b)].key;
    return x == y ? a < b : x < y;
  };
  for (size_t b = 0; b + 1 < begin.size(); ++b) {
    const auto first = by_key.begin() + begin[b], last = by_key.begin() + begin[b + 1];
    SortUnlessSorted(first, last, less);
  }
}

}  // namespace

SimulatedResources::SimulatedResources(const DeviceTopology& topology)
    : topology_(topology), devices_(topology.size()) {
  for (const Device& device : topology_.devices()) {
    names_.push_back(absl::StrCat(device.name, " compute"));
  }
  for (const Device& device : topology_.devices()) {
    names_.push_back(absl::StrCat(device.name, " communication"));
  }
  for (const Channel& channel : topology_.channels()) {
    of_channel_.push_back(channel.at_device ? -1 : count());
    if (!channel.at_device) names_.push_back(channel.name);
  }
  first_core_set_ = count();
  AddCoreSets();
}

void SimulatedResources::AddCoreSets() {
  core_sets_.resize(static_cast<size_t>(devices_));
  using Core = std::pair<std::string, int>;   // of which computer, and which
  std::map<Core, std::vector<size_t>> users;  // devices
  std::vector<Core> cores;                    // in order of first appearance
  for (size_t d = 0; d < core_sets_.size(); ++d) {
    const Device& device = topology_.devices()[d];
    if (device.kind != DeviceKind::kCpu) continue;
    const std::string computer =
        device.host.empty() ? absl::StrCat("node ", device.node) : device.host;
    for (int number : device.cores) {
      const Core core{computer, number};
      auto& list = users[core];
      if (list.empty()) cores.push_back(core);
      list.push_back(d);
    }
  }
  using Set = std::pair<std::string, std::vector<size_t>>;  // of which computer, and its users
  std::map<Set, std::vector<int>> sets;                     // cores
  std::vector<Set> order;
  for (const Core& core : cores) {
    auto& set = sets[{core.first, users[core]}];
    if (set.empty()) order.emplace_back(core.first, users[core]);
    set.push_back(core.second);
  }
  for (const Set& key : order) {
    for (size_t d : key.second) core_sets_[d].push_back(count());
    std::vector<int> list = sets[key];
    std::sort(list.begin(), list.end());
    names_.push_back(absl::StrCat(key.first, " cores ", CoreText(list)));
  }
}

FlatTasks ListTasks(const TaskGraph& graph, ResourceLister& lister,
                    std::span<const std::vector<int32_t>> communications) {
  CHECK_LE(graph.devices(), lister.resources().devices());
  FlatTasks flat;
  flat.resources = lister.resources().count();
  flat.resource_begin.reserve(graph.tasks().size() + 1);
  flat.resource_begin.push_back(0);
  for (const Task& task : graph.tasks()) {
    if (!communications.empty() && IsCommunication(task)) {
      const std::vector<int32_t>& held = communications.front();
      flat.resource_of.insert(flat.resource_of.end(), held.begin(), held.end());
      communications = communications.subspan(1);
    } else {
      lister.List(task.body, flat.resource_of);
    }
    for (TaskId before : task.after) flat.after.emplace_back(task.id, before);
    flat.resource_begin.push_back(static_cast<int32_t>(flat.resource_of.size()));
  }
  OrderByKey(graph, flat.by_key);
  return flat;
}

// Edges in the order of the later task, then sorted by the earlier one: counting sort.
void ConnectTasks(const BufferUses& uses, FlatTasks& tasks) {
  struct Edge {
    int32_t before, after;
  };
  const size_t n = tasks.size();
  std::vector<Edge> edges;
  edges.reserve(4 * n);
  DependencyFinder finder(n, uses.buffers.size());
  tasks.predecessor_count.resize(n);
  tasks.successor_begin.assign(n + 1, 0);
  std::vector<TaskId> after;  // of the current task
  auto edge = tasks.after.begin();
  for (size_t t = 0; t < n; ++t) {
    const size_t known = edges.size();
    after.clear();
    for (; edge != tasks.after.end() && edge->first.index() == t; ++edge) {
      after.push_back(edge->second);
    }
    finder.NextTask(uses.UsesOf(t), after, [&](TaskId before) {
      edges.push_back({before.value(), static_cast<int32_t>(t)});
      ++tasks.successor_begin[before.index() + 1];
    });
    tasks.predecessor_count[t] = static_cast<int32_t>(edges.size() - known);
  }
  for (size_t t = 0; t < n; ++t) tasks.successor_begin[t + 1] += tasks.successor_begin[t];
  tasks.successors.resize(edges.size());
  std::vector<int32_t> next(tasks.successor_begin.begin(), tasks.successor_begin.end() - 1);
  for (const Edge& edge : edges) {
    tasks.successors[static_cast<size_t>(next[static_cast<size_t>(edge.before)]++)] = edge.after;
  }
}

FlatTasks Flatten(const TaskGraph& graph, const SimulatedResources& resources) {
  ResourceLister lister(resources);
  FlatTasks flat = ListTasks(graph, lister);
  ConnectTasks(FindBufferUses(graph, {}), flat);
  return flat;
}

}  // namespace partita
