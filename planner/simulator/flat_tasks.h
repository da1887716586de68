#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/parallel/device_topology.h"
#include "graph/task/buffer_assignment.h"
#include "graph/task/task_graph.h"
#include "planner/simulator/graph_distances.h"

namespace partita {

// Resources, each of which serves one task at a time. Numbered in this order:
//   the compute lane of every device, the communication lane of every device,
//   the channels of the topology that tasks hold (ChannelId order),
//   core sets: logical processors of a computer that the same CPU devices name, in order of first
//     appearance.
//
// Resources that a task holds from start to end:
//   compute, move, load: the compute lane of its device, and the core sets of that device;
//   collective: the communication lanes of its group, and every channel on the routes between
//     members of the group;
//   transfers: the communication lanes of its group, and every channel on the routes of its
//     transfers;
//   but no channel at a device (Channel::at_device): who would hold it holds that device's
//     communication lane, so it is free whenever that is;
//   communication whose devices are all in one node is copying by the cores: it also holds the core
//     sets of its devices. Between nodes the network does the work and no core is held.
class SimulatedResources {
 public:
  explicit SimulatedResources(const DeviceTopology& topology);

  int count() const { return static_cast<int>(names_.size()); }
  int devices() const { return devices_; }
  int32_t ComputeLane(DeviceId device) const { return device.value(); }
  int32_t CommunicationLane(DeviceId device) const { return devices_ + device.value(); }
  bool IsLane(int32_t resource) const { return resource < 2 * devices_; }
  bool IsComputeLane(int32_t resource) const { return resource < devices_; }
  // The device of a lane of either kind.
  DeviceId DeviceOfLane(int32_t lane) const { return DeviceId(lane % devices_); }
  // -1: a channel that no task holds.
  int32_t ChannelResource(ChannelId channel) const { return of_channel_[channel.index()]; }
  bool IsCoreSet(int32_t resource) const { return resource >= first_core_set_; }
  std::span<const int32_t> CoreSets(DeviceId device) const { return core_sets_[device.index()]; }
  // "gpu0 compute", "gpu0 communication", a channel's name, "node 0 cores 0-3" or "HOST cores 0-3".
  const std::string& name(int32_t resource) const { return names_[static_cast<size_t>(resource)]; }
  const DeviceTopology& topology() const { return topology_; }

 private:
  void AddCoreSets();

  DeviceTopology topology_;
  int devices_ = 0;
  std::vector<std::string> names_;
  std::vector<int32_t> of_channel_;
  int32_t first_core_set_ = 0;
  std::vector<std::vector<int32_t>> core_sets_;  // indexed by device
};

// A task graph as flat arrays: all that simulation needs besides durations. Successors have larger
// numbers. Rows of a list of task t are [begin[t], begin[t + 1]).
struct FlatTasks {
  int32_t resources = 0;
  std::vector<int32_t> successor_begin, successors;
  std::vector<int32_t> resource_begin, resource_of;
  std::vector<int32_t> predecessor_count;
  std::vector<int32_t> by_key;  // tasks in the order of their structural keys, which breaks ties
  // Control edges: (task, earlier task that must have ended), sorted.
  std::vector<std::pair<TaskId, TaskId>> after;
  // Subject of each task, and distances between subjects, which outlive this; empty and null: all
  // tasks are of one.
  std::vector<int32_t> subject_of;
  const GraphDistances* distances = nullptr;

  size_t size() const { return by_key.size(); }
  bool AreOfOneSubject(size_t a, size_t b) const {
    return subject_of.empty() || subject_of[a] == subject_of[b];
  }
  // Whether it is of a tensor that only updates read, and holds several resources (Simulate).
  bool Yields(size_t task) const {
    return distances != nullptr && ResourcesOf(task).size() > 1 &&
           distances->IsForUpdates(subject_of[task]);
  }
  std::span<const int32_t> SuccessorsOf(size_t task) const {
    return {successors.data() + successor_begin[task],
            successors.data() + successor_begin[task + 1]};
  }
  std::span<const int32_t> ResourcesOf(size_t task) const {
    return {resource_of.data() + resource_begin[task],
            resource_of.data() + resource_begin[task + 1]};
  }
};

// The devices of the graph are the first ones of the topology; it has at least as many.
FlatTasks Flatten(const TaskGraph& graph, const SimulatedResources& resources);

class ResourceLister;  // planner/simulator/resource_lister.h

// The same in two halves. ListTasks: resources, keys and control edges; `communications`: what those
// of the graph hold, in their order, where it is known. ConnectTasks: which task follows which, from
// what the tasks use and from control edges, as DependencyFinder says.
FlatTasks ListTasks(const TaskGraph& graph, ResourceLister& lister,
                    std::span<const std::vector<int32_t>> communications = {});
void ConnectTasks(const BufferUses& uses, FlatTasks& tasks);

}  // namespace partita
