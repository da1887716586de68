#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/support/strong_int.h"

namespace partita {

enum class DeviceKind : uint8_t { kCpu, kGpu };

// Device that runs tasks: a group of CPU cores or a GPU.
struct Device {
  std::string name;  // unique in the topology
  DeviceKind kind = DeviceKind::kCpu;
  // Devices of one class have the same speed: "cpu", "p100". A machine file describes each class.
  std::string device_class = "cpu";
  // Index of the node that it belongs to: the devices that one process may use, which reach those
  // of other nodes over links.
  int node = 0;
  Bytes memory;  // memory that tensors may take
  // CPU devices: the cores (logical processor numbers of the node) that its compute and its
  // communication lane run on, without repeats. Lanes that name one core share it.
  std::vector<int> cores;
  int threads = 1;  // CPU devices: threads that do arithmetic
  // Name of the physical host whose cores and memory it uses, where several nodes are on one
  // (virtual machines, network namespaces): nodes of one host slow each other down, though what
  // they exchange goes over links. Empty: the node is a host of its own.
  std::string host;

  friend bool operator==(const Device&, const Device&) = default;
};

// A wire, a bus or a switch port between vertices; a vertex is a device or a switch (any name that
// is no device's).
struct Link {
  std::string name;               // unique in the topology
  std::vector<std::string> ends;  // vertices: two, or two and more for a shared medium
  int64_t bytes_per_second = 0;   // bandwidth per direction, or in total for a shared medium
  Nanos latency;
  // true: a bus, all traffic over it adds up; false: full duplex, each direction has it all.
  bool shared = false;

  friend bool operator==(const Link&, const Link&) = default;
};

struct ChannelIdTag : IdTag {};
using ChannelId = StrongInt<ChannelIdTag, int32_t>;

// Unit of contention of traffic: one direction of a full-duplex link, or a shared link as a whole.
// Transfers at the same time share the bandwidth of a channel.
struct Channel {
  std::string name;  // the link's, with ">" or "<" for the two directions of a full-duplex link
  int64_t bytes_per_second = 0;
  Nanos latency;
  // Whether its link has two ends, one of them a device. Devices do not forward, so all that goes
  // over it comes from that device or goes to it.
  bool at_device = false;

  friend bool operator==(const Channel&, const Channel&) = default;
};

using RouteChannels = absl::InlinedVector<ChannelId, 8>;
class Routes;           // graph/parallel/routes.h
class RouteTable;       // graph/parallel/route_table.h
class LevelRoutes;      // graph/parallel/level_routes.h
struct TopologyLevels;  // graph/parallel/levels.h

// The devices of a machine and how they are connected: what planner and runtime both need to know.
// Immutable; DeviceId is the position in devices(). Says nothing about speed of computing.
//
// The route between two devices is the one on which 1 MiB takes the least time (sum over its links
// of latency + bytes/bandwidth); ties go to fewer links, then to links that come first in links().
// Devices do not forward traffic, switches do. Routes are found when they are asked for: a topology
// takes memory in proportion to its devices and links, and at most Routes::kMostKept for routes,
// besides the table of a small machine.
// A topology may be described by levels of alike groups instead, which says how routes go, too.
class DeviceTopology {
 public:
  DeviceTopology() = default;
  // InvalidArgument naming each device or link at fault: no devices, names that repeat, a link with
  // fewer than two ends or without bandwidth; where there is no such fault, a device pair without a
  // route.
  static absl::StatusOr<DeviceTopology> Create(std::vector<Device> devices,
                                               std::vector<Link> links);
  // InvalidArgument with all faults.
  static absl::StatusOr<DeviceTopology> Create(TopologyLevels levels);

  int size() const { return static_cast<int>(devices_.size()); }
  std::span<const Device> devices() const { return devices_; }
  const Device& device(DeviceId id) const { return devices_[id.index()]; }
  // Each one that follows from the levels, in a topology by levels.
  std::span<const Link> links() const;
  std::span<const Channel> channels() const { return channels_; }
  const Channel& channel(ChannelId id) const { return channels_[id.index()]; }

  // The channels from one device to another, in order; empty from a device to itself.
  RouteChannels Route(DeviceId from, DeviceId to) const;
  // The channels of all routes between members of the group, ascending.
  std::vector<ChannelId> ChannelsBetween(std::span<const DeviceId> group) const;
  // All routes, made when they are asked for first; null for more than RouteTable::kMostDevices
  // devices.
  const RouteTable* route_table() const;
  // The routes over links, where the topology is no one by levels.
  const Routes& routes() const { return *routes_; }
  // The routes by levels; null of a topology that lists its links.
  const LevelRoutes* level_routes() const { return level_routes_.get(); }
  // The sum of latencies along the route, and the bandwidth of its slowest channel (0 from a device
  // to itself).
  Nanos RouteLatency(DeviceId from, DeviceId to) const;
  int64_t RouteBytesPerSecond(DeviceId from, DeviceId to) const;

  // True if both are on one computer: in one node, or in nodes that name the same host.
  bool ShareHost(DeviceId a, DeviceId b) const;
  // CPU devices of one computer with a core in common: one works while the other waits.
  bool ShareCore(DeviceId a, DeviceId b) const;
  // Devices of this one's computer that can work at the same time: in order, those that have no
  // core in common with an earlier one of them.
  std::vector<DeviceId> AtOnce(DeviceId device) const;

  // The first `count` devices with what connects them. InvalidArgument if there are fewer.
  absl::StatusOr<DeviceTopology> TakeDevices(int count) const;

  // The same on every machine for equal topologies.
  uint64_t fingerprint() const;

  // One by levels equals no one that lists its links.
  friend bool operator==(const DeviceTopology& a, const DeviceTopology& b);

 private:
  std::vector<Device> devices_;
  std::vector<Link> links_;
  std::vector<Channel> channels_;
  std::shared_ptr<const Routes> routes_;  // routes, shared by copies; null of one by levels
  std::shared_ptr<const LevelRoutes> level_routes_;
  struct LazyTable;
  std::shared_ptr<LazyTable> table_;  // shared by copies
};

// "cpu", "gpu".
absl::string_view Name(DeviceKind kind);

// `count` CPU devices "cpu0".. of one thread on cores 0.. of one node, that exchange through memory
// as one shared medium: for tests and for verification on virtual devices.
DeviceTopology VirtualCpuDevices(int count, Bytes memory = Bytes(int64_t{1} << 40));

}  // namespace partita
