#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/parallel/device_topology.h"

namespace partita {

// All routes of a topology as DeviceTopology stores them; see there for which route is chosen.
struct RouteTable {
  std::vector<int32_t> begin;
  std::vector<ChannelId> channels;
};

// One channel for each shared link, two for each full-duplex link (first end to second, and back),
// in the order of the links.
std::vector<Channel> ChannelsOf(std::span<const Link> links);

// InvalidArgument naming the first pair of devices that no links connect. The links are valid.
absl::StatusOr<RouteTable> FindRoutes(std::span<const Device> devices, std::span<const Link> links);

}  // namespace partita
