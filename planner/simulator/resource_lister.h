#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "graph/parallel/channel_loads.h"
#include "graph/parallel/route_table.h"
#include "graph/task/task_graph.h"
#include "planner/simulator/flat_tasks.h"

namespace partita {

// Lists what tasks hold (SimulatedResources). Not for several threads.
class ResourceLister {
 public:
  // The resources outlive this.
  explicit ResourceLister(const SimulatedResources& resources);

  const SimulatedResources& resources() const { return resources_; }

  // Appends what the task holds, each resource once.
  void List(const TaskBody& body, std::vector<int32_t>& list);

 private:
  // Groups whose channels are kept.
  static constexpr size_t kMostGroups = 4096;
  // Groups of so many look up all their routes.
  static constexpr size_t kFewRanks = 8;

  template <class OneDeviceTask>
  void ListBody(const OneDeviceTask& task);
  void ListBody(const CollectiveTask& task);
  void ListBody(const TransferTask& task);
  void ListRoutes(const TransferTask& task);
  void ListRoute(DeviceId from, DeviceId to);  // of the table
  void ListGroup(const std::vector<DeviceId>& group);
  std::vector<int32_t> ChannelsBetween(const std::vector<DeviceId>& group) const;
  void AddChannel(ChannelId channel) {
    const int32_t resource = resources_.ChannelResource(channel);
    if (resource >= 0) Add(resource);
  }
  void Add(int32_t resource);

  const SimulatedResources& resources_;
  std::vector<int32_t>* list_ = nullptr;  // at hand
  std::vector<int64_t> last_use_;         // by resource: the task that listed it last
  int64_t use_ = 0;
  const RouteTable* const table_;  // null for large machines, where loads are used
  std::optional<ChannelLoads> loads_;
  std::vector<ChannelLoads::Message> messages_;  // of one device
  absl::flat_hash_map<std::vector<DeviceId>, std::vector<int32_t>> channels_of_group_;
};

}  // namespace partita
