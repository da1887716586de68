#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "graph/parallel/device_topology.h"
#include "graph/support/faults.h"

namespace partita {

// How the devices of a group are connected.
enum class LevelNetwork : uint8_t {
  kNone,  // not at all: the level only says which devices belong together
  // By a switch, which also leads to the levels above: every port of the groups below (a device, or
  // a switch of theirs) has a link up to it. PCIe switches, network cards, leaf and spine switches.
  kTree,
  // By links that serve the group's devices alone:
  kCrossbar,  // from each device to a switch (NVSwitch)
  kAllPairs,  // from each device to each other one (NVLink without a switch)
  kTorus,     // from each device to a router of its own, and between routers in rings
};

// A level of groups: `count` groups of the level below, or devices at the lowest, make one of its.
struct TopologyLevel {
  std::string name;  // of its switches, before their numbers; unique
  int count = 1;
  LevelNetwork network = LevelNetwork::kNone;
  int64_t bytes_per_second = 0;  // of each link, per direction
  Nanos latency;
  // kTree: switches of a group. Port k of the group leads to switch k mod rails, so that with as
  // many rails as a node has network cards the cards of one place share a switch.
  int rails = 1;
  // kTorus: routers in each dimension; devices are counted with the first one running fastest.
  std::vector<int> extents;
  bool is_node = false;  // its groups are the nodes; without such a level, all devices are one

  friend bool operator==(const TopologyLevel&, const TopologyLevel&) = default;
};

// Devices that follow each other and are alike but for name and node, which come from their place.
struct AlikeDevices {
  Device device;  // its name: what comes before the number, "gpu" of "n0.gpu3"
  int count = 0;

  friend bool operator==(const AlikeDevices&, const AlikeDevices&) = default;
};

// A topology by levels of groups, from the inside out: a few lines for any number of devices. The
// last group of a level may lack devices.
//
// The route between two devices is over the innermost network of those kinds that serve a group
// alone that both are in; where there is none, up the tree to the first switch that both are under,
// and down.
struct TopologyLevels {
  std::vector<AlikeDevices> devices;
  std::vector<TopologyLevel> levels;

  friend bool operator==(const TopologyLevels&, const TopologyLevels&) = default;
};

// "tree", "crossbar", ..
absl::string_view Name(LevelNetwork network);

int DeviceCount(const TopologyLevels& levels);

// Faults of the levels themselves: names, figures, more groups than are needed, devices that
// nothing joins. Says nothing about the devices' own fields.
void CheckLevels(const TopologyLevels& levels, Faults& faults);

// All devices, named "n0.gpu3": the node, and the place in it. The levels are valid.
std::vector<Device> DevicesOf(const TopologyLevels& levels);

}  // namespace partita
