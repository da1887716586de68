#include "graph/parallel/device_topology.h"

#include <algorithm>
#include <mutex>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "graph/parallel/level_routes.h"
#include "graph/parallel/levels.h"
#include "graph/parallel/route_table.h"
#include "graph/parallel/routes.h"
#include "graph/support/check.h"
#include "graph/support/error_category.h"
#include "graph/support/fingerprint.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

// Bounds on what files may ask for.
constexpr size_t kMaxDevices = 4096;
constexpr size_t kMaxLinks = 65536;
constexpr int kMaxNode = 1 << 20;
constexpr int64_t kMaxLatency = int64_t{1} << 40;  // 18 minutes

absl::Status Bad(absl::string_view kind, absl::string_view name, absl::string_view fault) {
  return absl::InvalidArgumentError(absl::StrCat(kind, " '", name, "' ", fault));
}

absl::Status CheckDevice(const Device& device) {
  if (device.name.empty()) return Bad("device", "", "has no name");
  if (device.device_class.empty()) return Bad("device", device.name, "has no device class");
  if (device.node < 0 || device.node > kMaxNode) {
    return Bad(
        "device", device.name,
        absl::StrCat("has node ", device.node, "; nodes count from 0, to at most ", kMaxNode));
  }
  if (device.memory.value() <= 0) {
    return Bad("device", device.name,
               absl::StrCat("has ", device.memory.value(), " bytes of memory; wanted more than 0"));
  }
  if (device.threads < 1) {
    return Bad("device", device.name,
               absl::StrCat("has ", device.threads, " threads; wanted at least 1"));
  }
  absl::flat_hash_set<int> cores;
  for (int core : device.cores) {
    if (core < 0 || !cores.insert(core).second) {
      return Bad("device", device.name,
                 absl::StrCat("lists core ", core, "; wanted numbers from 0, each once"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckLink(const Link& link) {
  if (link.name.empty()) return Bad("link", "", "has no name");
  if (link.ends.size() < 2 || (link.ends.size() > 2 && !link.shared)) {
    return Bad("link", link.name,
               absl::StrCat("has ", link.ends.size(),
                            " ends; wanted 2, or more where it is a shared medium"));
  }
  absl::flat_hash_set<std::string> ends;
  for (const std::string& end : link.ends) {
    if (end.empty() || !ends.insert(end).second) {
      return Bad("link", link.name,
                 absl::StrCat("has the end '", end, "' twice or without a name"));
    }
  }
  if (link.bytes_per_second <= 0) {
    return Bad("link", link.name,
               absl::StrCat("has ", link.bytes_per_second, " bytes/s; wanted more than 0"));
  }
  if (link.latency.value() < 0 || link.latency.value() > kMaxLatency) {
    return Bad("link", link.name,
               absl::StrCat("has a latency of ", link.latency.value(), " ns; wanted 0 to 2^40"));
  }
  return absl::OkStatus();
}

// Devices of one node are on one computer.
void CheckHosts(std::span<const Device> devices, Faults& faults) {
  absl::flat_hash_map<int, const Device*> first_of_node;
  for (const Device& device : devices) {
    const Device& first = *first_of_node.try_emplace(device.node, &device).first->second;
    if (first.host == device.host) continue;
    faults.Add(Bad("device", device.name,
                   absl::StrCat("is on host '", device.host, "' and device '", first.name,
                                "' of the same node ", device.node, " on '", first.host, "'")));
  }
}

absl::Status CheckAll(std::span<const Device> devices, std::span<const Link> links) {
  if (devices.empty() || devices.size() > kMaxDevices || links.size() > kMaxLinks) {
    return absl::InvalidArgumentError(
        absl::StrCat("the topology has ", devices.size(), " devices and ", links.size(),
                     " links; wanted 1 to ", kMaxDevices, " devices and at most ", kMaxLinks,
                     " links (of more that are alike, describe levels: proto/machine.proto)"));
  }
  Faults faults;
  absl::flat_hash_set<std::string> names;
  for (const Device& device : devices) {
    faults.Add(CheckDevice(device));
    if (!names.insert(device.name).second) faults.Add(Bad("device", device.name, "is there twice"));
  }
  CheckHosts(devices, faults);
  names.clear();
  for (const Link& link : links) {
    faults.Add(CheckLink(link));
    if (!names.insert(link.name).second) faults.Add(Bad("link", link.name, "is there twice"));
  }
  return faults.ToStatus();
}

TopologyLevels FirstOf(TopologyLevels levels, int count) {
  for (AlikeDevices& alike : levels.devices) {
    alike.count = std::min(alike.count, count);
    count -= alike.count;
  }
  std::erase_if(levels.devices, [](const AlikeDevices& alike) { return alike.count == 0; });
  return levels;
}

void AddTo(Fingerprint& print, const TopologyLevels& levels) {
  print.Add(levels.levels.size());
  for (const TopologyLevel& level : levels.levels) {
    print.Add(level.name).Add(level.count).Add(static_cast<uint64_t>(level.network));
    print.Add(level.bytes_per_second).Add(level.latency.value()).Add(level.rails);
    print.Add(level.extents.size());
    for (int extent : level.extents) print.Add(extent);
  }
}

}  // namespace

struct DeviceTopology::LazyTable {
  std::once_flag once;
  std::optional<RouteTable> table;
};

const RouteTable* DeviceTopology::route_table() const {
  if (table_ == nullptr || size() > RouteTable::kMostDevices) return nullptr;
  std::call_once(table_->once, [this] { table_->table.emplace(*this); });
  return &*table_->table;
}

absl::StatusOr<DeviceTopology> DeviceTopology::Create(std::vector<Device> devices,
                                                      std::vector<Link> links) {
  RETURN_IF_ERROR(CheckAll(devices, links));
  DeviceTopology topology;
  topology.table_ = std::make_shared<LazyTable>();
  ASSIGN_OR_RETURN(topology.routes_, Routes::Create(devices, links));
  const DeviceNames names = NamesOf(devices);
  for (const Link& link : links) AddChannels(link, names, topology.channels_);
  topology.devices_ = std::move(devices);
  topology.links_ = std::move(links);
  return topology;
}

absl::StatusOr<DeviceTopology> DeviceTopology::Create(TopologyLevels levels) {
  Faults faults;
  CheckLevels(levels, faults);
  for (const AlikeDevices& alike : levels.devices) faults.Add(CheckDevice(alike.device));
  RETURN_IF_ERROR(faults.ToStatus());
  DeviceTopology topology;
  topology.table_ = std::make_shared<LazyTable>();
  topology.devices_ = DevicesOf(levels);
  CheckHosts(topology.devices_, faults);
  RETURN_IF_ERROR(faults.ToStatus());
  topology.level_routes_ = std::make_shared<const LevelRoutes>(std::move(levels));
  topology.channels_ = topology.level_routes_->Channels();
  return topology;
}

std::span<const Link> DeviceTopology::links() const {
  return level_routes_ == nullptr ? links_ : level_routes_->links();
}

RouteChannels DeviceTopology::Route(DeviceId from, DeviceId to) const {
  return level_routes_ == nullptr ? routes_->Find(from, to) : level_routes_->Find(from, to);
}

std::vector<ChannelId> DeviceTopology::ChannelsBetween(std::span<const DeviceId> group) const {
  return level_routes_ == nullptr ? routes_->Between(group) : level_routes_->Between(group);
}

Nanos DeviceTopology::RouteLatency(DeviceId from, DeviceId to) const {
  Nanos sum;
  for (ChannelId id : Route(from, to)) sum += channel(id).latency;
  return sum;
}

int64_t DeviceTopology::RouteBytesPerSecond(DeviceId from, DeviceId to) const {
  int64_t slowest = 0;
  for (ChannelId id : Route(from, to)) {
    const int64_t speed = channel(id).bytes_per_second;
    slowest = slowest == 0 ? speed : std::min(slowest, speed);
  }
  return slowest;
}

bool DeviceTopology::ShareHost(DeviceId a, DeviceId b) const {
  const Device& first = device(a);
  const Device& second = device(b);
  return first.node == second.node || (!first.host.empty() && first.host == second.host);
}

bool DeviceTopology::ShareCore(DeviceId a, DeviceId b) const {
  if (!ShareHost(a, b)) return false;
  const std::vector<int>& other = device(b).cores;
  return std::any_of(device(a).cores.begin(), device(a).cores.end(), [&](int core) {
    return std::find(other.begin(), other.end(), core) != other.end();
  });
}

std::vector<DeviceId> DeviceTopology::AtOnce(DeviceId of) const {
  std::vector<DeviceId> found;
  for (int d = 0; d < size(); ++d) {
    const DeviceId id(d);
    if (!ShareHost(id, of)) continue;
    const auto shares = [&](DeviceId other) { return ShareCore(id, other); };
    if (std::none_of(found.begin(), found.end(), shares)) found.push_back(id);
  }
  return found;
}

absl::StatusOr<DeviceTopology> DeviceTopology::TakeDevices(int count) const {
  if (count < 1 || count > size()) {
    return UsageError(absl::StrCat("cannot take ", count, " devices: the machine has ", size(),
                                   ". Try a number from 1 to ", size()));
  }
  if (level_routes_ != nullptr) return Create(FirstOf(level_routes_->levels(), count));
  absl::flat_hash_set<std::string> dropped;
  for (int d = count; d < size(); ++d) dropped.insert(devices_[d].name);
  std::vector<Link> links;
  for (Link link : links_) {
    const size_t before = link.ends.size();
    std::erase_if(link.ends, [&](const std::string& end) { return dropped.contains(end); });
    // A wire to a dropped device goes; a medium stays for those that are left.
    if (link.ends.size() < 2 || (before == 2 && link.ends.size() < before)) continue;
    links.push_back(std::move(link));
  }
  return Create({devices_.begin(), devices_.begin() + count}, std::move(links));
}

bool operator==(const DeviceTopology& a, const DeviceTopology& b) {
  if (a.level_routes_ != nullptr && b.level_routes_ != nullptr) {
    return a.level_routes_->levels() == b.level_routes_->levels();
  }
  return a.level_routes_ == b.level_routes_ && a.devices_ == b.devices_ && a.links_ == b.links_;
}

uint64_t DeviceTopology::fingerprint() const {
  Fingerprint print;
  print.Add(devices_.size());
  for (const Device& d : devices_) {
    print.Add(d.name).Add(static_cast<uint64_t>(d.kind)).Add(d.device_class).Add(d.node);
    print.Add(d.memory.value()).Add(d.threads).Add(d.cores.size());
    for (int core : d.cores) print.Add(core);
    print.Add(d.host);
  }
  if (level_routes_ != nullptr) {
    AddTo(print, level_routes_->levels());
    return print.value();
  }
  print.Add(links_.size());
  for (const Link& link : links_) {
    print.Add(link.name).Add(link.ends.size());
    for (const std::string& end : link.ends) print.Add(end);
    print.Add(link.bytes_per_second).Add(link.latency.value()).Add(link.shared);
  }
  return print.value();
}

absl::string_view Name(DeviceKind kind) { return kind == DeviceKind::kCpu ? "cpu" : "gpu"; }

DeviceTopology VirtualCpuDevices(int count, Bytes memory) {
  std::vector<Device> devices;
  Link bus{
      .name = "memory", .bytes_per_second = 10'000'000'000, .latency = Nanos(1000), .shared = true};
  for (int d = 0; d < count; ++d) {
    devices.push_back({.name = absl::StrCat("cpu", d), .memory = memory, .cores = {d}});
    bus.ends.push_back(devices.back().name);
  }
  std::vector<Link> links;
  if (count > 1) links.push_back(std::move(bus));
  auto topology = DeviceTopology::Create(std::move(devices), std::move(links));
  CHECK(topology.ok()) << topology.status().message();
  return *std::move(topology);
}

}  // namespace partita
