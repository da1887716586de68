#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/parallel/device_topology.h"

namespace partita {

// Nodes of a machine that may change places with each other: what is sent in a group of devices takes
// as long in any other one that is like it but for which nodes it has. Of such groups one may stand
// for all.
class AlikeNodes {
 public:
  // nullopt where two of the nodes must not change places, where there is one node only, or where
  // the topology has no table of routes. `equal_devices`: the first device that computes and copies as
  // fast as each does.
  static std::optional<AlikeNodes> Of(const DeviceTopology& topology,
                                      std::span<const DeviceId> equal_devices);

  // The same places in other nodes: in the first, second, .. node, as nodes first come in the group.
  void Renumber(std::span<const DeviceId> group, std::vector<DeviceId>& renumbered) const;

 private:
  AlikeNodes() = default;

  bool Find(const DeviceTopology& topology, std::span<const DeviceId> equal_devices);
  // Whether the machine is the same with its nodes in other places: node n in that of `places[n]`.
  bool IsSame(const DeviceTopology& topology, std::span<const size_t> places) const;
  DeviceId At(size_t node, size_t place) const { return devices_[node * of_node_ + place]; }

  size_t nodes_ = 0, of_node_ = 0;          // how many, and the devices of each
  std::vector<DeviceId> devices_;           // by node and place in it
  std::vector<size_t> node_of_, place_of_;  // indexed by device
};

}  // namespace partita
