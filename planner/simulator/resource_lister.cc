#include "planner/simulator/resource_lister.h"

#include <algorithm>

namespace partita {

ResourceLister::ResourceLister(const SimulatedResources& resources)
    : resources_(resources),
      last_use_(static_cast<size_t>(resources.count()), 0),
      table_(resources.topology().route_table()) {}

void ResourceLister::List(const TaskBody& body, std::vector<int32_t>& list) {
  ++use_;
  list_ = &list;
  std::visit([this](const auto& one) { ListBody(one); }, body);
}

template <class OneDeviceTask>
void ResourceLister::ListBody(const OneDeviceTask& task) {
  Add(resources_.ComputeLane(task.device));
  for (int32_t cores : resources_.CoreSets(task.device)) Add(cores);
}

void ResourceLister::ListBody(const CollectiveTask& task) {
  ListGroup(task.group);
  if (table_ != nullptr && task.group.size() <= kFewRanks) {
    for (DeviceId from : task.group) {
      for (DeviceId to : task.group) ListRoute(from, to);
    }
    return;
  }
  if (channels_of_group_.size() > kMostGroups) channels_of_group_.clear();
  const auto [known, added] = channels_of_group_.try_emplace(task.group);
  if (added) known->second = ChannelsBetween(task.group);
  for (int32_t channel : known->second) Add(channel);
}

void ResourceLister::ListBody(const TransferTask& task) {
  ListGroup(task.group);
  if (table_ == nullptr) return ListRoutes(task);
  for (const Transfer& transfer : task.transfers) ListRoute(transfer.from, transfer.to);
}

void ResourceLister::ListRoute(DeviceId from, DeviceId to) {
  for (ChannelId channel : table_->Of(from, to).channels) AddChannel(channel);
}

void ResourceLister::ListRoutes(const TransferTask& task) {
  if (!loads_.has_value()) loads_.emplace(resources_.topology());
  const auto add_routes = [this](DeviceId from) {
    loads_->Add(from, messages_);
    for (ChannelId channel : loads_->busy()) AddChannel(channel);
    loads_->Clear();
    messages_.clear();
  };
  DeviceId from;
  for (const Transfer& transfer : task.transfers) {
    if (transfer.from != from) add_routes(from);
    from = transfer.from;
    if (transfer.to != from) messages_.push_back({transfer.to, 1});
  }
  add_routes(from);
}

void ResourceLister::ListGroup(const std::vector<DeviceId>& group) {
  const DeviceTopology& topology = resources_.topology();
  const bool one_node = std::all_of(group.begin(), group.end(), [&](DeviceId d) {
    return topology.device(d).node == topology.device(group[0]).node;
  });
  for (DeviceId device : group) {
    Add(resources_.CommunicationLane(device));
    if (!one_node) continue;
    for (int32_t cores : resources_.CoreSets(device)) Add(cores);
  }
}

std::vector<int32_t> ResourceLister::ChannelsBetween(const std::vector<DeviceId>& group) const {
  std::vector<int32_t> channels;
  for (ChannelId channel : resources_.topology().ChannelsBetween(group)) {
    const int32_t resource = resources_.ChannelResource(channel);
    if (resource >= 0) channels.push_back(resource);
  }
  return channels;
}

void ResourceLister::Add(int32_t resource) {
  if (std::exchange(last_use_[static_cast<size_t>(resource)], use_) == use_) return;
  list_->push_back(resource);
}

}  // namespace partita
