#include "graph/parallel/topology_io.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace partita {

proto::Topology TopologyToProto(const DeviceTopology& topology) {
  proto::Topology message;
  for (const Device& device : topology.devices()) {
    proto::Device& d = *message.add_devices();
    d.set_name(device.name);
    d.set_kind(device.kind == DeviceKind::kCpu ? proto::Device::CPU : proto::Device::GPU);
    d.set_device_class(device.device_class);
    d.set_node(device.node);
    d.set_memory_bytes(device.memory.value());
    for (int core : device.cores) d.add_cores(core);
    d.set_threads(device.threads);
    d.set_host(device.host);
  }
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
  std::vector<Device> devices;
  for (const proto::Device& d : message.devices()) {
    if (d.kind() != proto::Device::CPU && d.kind() != proto::Device::GPU) {
      return absl::InvalidArgumentError(
          absl::StrCat("device '", d.name(), "' has no kind; wanted CPU or GPU"));
    }
    devices.push_back({.name = d.name(),
                       .kind = d.kind() == proto::Device::CPU ? DeviceKind::kCpu : DeviceKind::kGpu,
                       .device_class = d.device_class(),
                       .node = d.node(),
                       .memory = Bytes(d.memory_bytes()),
                       .cores = {d.cores().begin(), d.cores().end()},
                       .threads = d.threads() == 0 ? 1 : d.threads(),
                       .host = d.host()});
  }
  std::vector<Link> links;
  for (const proto::Link& l : message.links()) {
    links.push_back({.name = l.name(),
                     .ends = {l.ends().begin(), l.ends().end()},
                     .bytes_per_second = l.bytes_per_second(),
                     .latency = Nanos(l.latency_ns()),
                     .shared = l.shared()});
  }
  return DeviceTopology::Create(std::move(devices), std::move(links));
}

}  // namespace partita
