#include "graph/parallel/topology_io.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "graph/parallel/level_routes.h"
#include "graph/parallel/levels.h"
#include "graph/support/check.h"
#include "graph/support/faults.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

constexpr LevelNetwork kNetworks[] = {LevelNetwork::kNone, LevelNetwork::kTree,
                                      LevelNetwork::kCrossbar, LevelNetwork::kAllPairs,
                                      LevelNetwork::kTorus};

void SetDevice(const Device& device, proto::Device& d) {
  d.set_name(device.name);
  d.set_kind(device.kind == DeviceKind::kCpu ? proto::Device::CPU : proto::Device::GPU);
  d.set_device_class(device.device_class);
  d.set_node(device.node);
  d.set_memory_bytes(device.memory.value());
  for (int core : device.cores) d.add_cores(core);
  d.set_threads(device.threads);
  d.set_host(device.host);
}

Device DeviceOf(const proto::Device& d, Faults& faults) {
  if (d.kind() != proto::Device::CPU && d.kind() != proto::Device::GPU) {
    faults.Add(absl::StrCat("device '", d.name(), "' has no kind; wanted CPU or GPU"));
  }
  return {.name = d.name(),
          .kind = d.kind() == proto::Device::CPU ? DeviceKind::kCpu : DeviceKind::kGpu,
          .device_class = d.device_class(),
          .node = d.node(),
          .memory = Bytes(d.memory_bytes()),
          .cores = {d.cores().begin(), d.cores().end()},
          .threads = d.threads() == 0 ? 1 : d.threads(),
          .host = d.host()};
}

void SetLevel(const TopologyLevel& level, proto::Level& l) {
  l.set_name(level.name);
  l.set_count(level.count);
  l.set_network(static_cast<proto::Level::Network>(level.network));
  l.set_bytes_per_second(level.bytes_per_second);
  l.set_latency_ns(level.latency.value());
  if (level.rails != 1) l.set_rails(level.rails);
  for (int extent : level.extents) l.add_extents(extent);
  l.set_is_node(level.is_node);
}

TopologyLevel LevelOf(const proto::Level& l, Faults& faults) {
  const auto network = static_cast<size_t>(l.network());
  if (network >= std::size(kNetworks)) {
    faults.Add(absl::StrCat("level '", l.name(), "' has network ", l.network(),
                            "; wanted TREE, CROSSBAR, ALL_PAIRS, TORUS or NONE"));
  }
  return {.name = l.name(),
          .count = l.count() == 0 ? 1 : l.count(),
          .network = network < std::size(kNetworks) ? kNetworks[network] : LevelNetwork::kNone,
          .bytes_per_second = l.bytes_per_second(),
          .latency = Nanos(l.latency_ns()),
          .rails = l.rails() == 0 ? 1 : l.rails(),
          .extents = {l.extents().begin(), l.extents().end()},
          .is_node = l.is_node()};
}

absl::StatusOr<DeviceTopology> ByLevels(const proto::Topology& message) {
  Faults faults;
  if (message.devices_size() + message.links_size() > 0) {
    faults.Add(absl::StrCat("the topology has ", message.devices_size(), " devices and ",
                            message.links_size(),
                            " links beside levels; wanted levels and alike_devices, or devices "
                            "and links"));
  }
  TopologyLevels levels;
  for (const proto::AlikeDevices& alike : message.alike_devices()) {
    levels.devices.push_back(
        {DeviceOf(alike.device(), faults), alike.count() == 0 ? 1 : alike.count()});
  }
  for (const proto::Level& level : message.levels()) {
    levels.levels.push_back(LevelOf(level, faults));
  }
  auto topology = DeviceTopology::Create(std::move(levels));
  faults.Add(topology.status());
  RETURN_IF_ERROR(faults.ToStatus());
  return topology;
}

}  // namespace

proto::Topology TopologyToProto(const DeviceTopology& topology) {
  proto::Topology message;
  if (const LevelRoutes* routes = topology.level_routes()) {
    const TopologyLevels& levels = routes->levels();
    for (const AlikeDevices& alike : levels.devices) {
      proto::AlikeDevices& a = *message.add_alike_devices();
      SetDevice(alike.device, *a.mutable_device());
      a.set_count(alike.count);
    }
    for (const TopologyLevel& level : levels.levels) SetLevel(level, *message.add_levels());
    return message;
  }
  for (const Device& device : topology.devices()) SetDevice(device, *message.add_devices());
  for (const Link& link : topology.links()) {
    proto::Link& l = *message.add_links();
    l.set_name(link.name);
    for (const std::string& end : link.ends) l.add_ends(end);
    l.set_bytes_per_second(link.bytes_per_second);
    l.set_latency_ns(link.latency.value());
    l.set_shared(link.shared);
  }
  return message;
}

absl::StatusOr<DeviceTopology> TopologyFromProto(const proto::Topology& message) {
  if (message.levels_size() + message.alike_devices_size() > 0) return ByLevels(message);
  Faults faults;
  std::vector<Device> devices;
  for (const proto::Device& d : message.devices()) devices.push_back(DeviceOf(d, faults));
  std::vector<Link> links;
  for (const proto::Link& l : message.links()) {
    links.push_back({.name = l.name(),
                     .ends = {l.ends().begin(), l.ends().end()},
                     .bytes_per_second = l.bytes_per_second(),
                     .latency = Nanos(l.latency_ns()),
                     .shared = l.shared()});
  }
  auto topology = DeviceTopology::Create(std::move(devices), std::move(links));
  faults.Add(topology.status());
  RETURN_IF_ERROR(faults.ToStatus());
  return topology;
}

}  // namespace partita
