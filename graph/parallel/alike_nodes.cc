#include "graph/parallel/alike_nodes.h"

#include <algorithm>
#include <numeric>

#include "absl/container/inlined_vector.h"
#include "graph/parallel/route_table.h"

namespace partita {
namespace {

// A mapping of channels, found pair by pair: to one of equal speed each, no two to the same.
class ChannelMapping {
 public:
  explicit ChannelMapping(const DeviceTopology& topology)
      : topology_(topology), to_(topology.channels().size(), -1), from_(to_) {}

  // Whether the routes may be mapped onto each other.
  bool Add(std::span<const ChannelId> from, std::span<const ChannelId> to) {
    if (from.size() != to.size()) return false;
    for (size_t k = 0; k < from.size(); ++k) {
      int32_t& known_to = to_[from[k].index()];
      int32_t& known_from = from_[to[k].index()];
      if (known_to < 0 && known_from < 0 && AreEqual(from[k], to[k])) {
        known_to = to[k].value();
        known_from = from[k].value();
      }
      if (known_to != to[k].value() || known_from != from[k].value()) return false;
    }
    return true;
  }

 private:
  bool AreEqual(ChannelId a, ChannelId b) const {
    const Channel &x = topology_.channel(a), &y = topology_.channel(b);
    return x.bytes_per_second == y.bytes_per_second && x.latency == y.latency;
  }

  const DeviceTopology& topology_;
  std::vector<int32_t> to_, from_;  // indexed by ChannelId; -1: not known
};

}  // namespace

std::optional<AlikeNodes> AlikeNodes::Of(const DeviceTopology& topology,
                                         std::span<const DeviceId> equal_devices) {
  AlikeNodes nodes;
  if (!nodes.Find(topology, equal_devices)) return std::nullopt;
  return nodes;
}

bool AlikeNodes::Find(const DeviceTopology& topology, std::span<const DeviceId> equal_devices) {
  if (topology.route_table() == nullptr) return false;
  const auto all = topology.devices();
  for (const Device& device : all) {
    if (!device.host.empty()) return false;  // nodes of one host are nearer to each other
    nodes_ = std::max(nodes_, static_cast<size_t>(device.node) + 1);
  }
  if (nodes_ < 2 || all.size() % nodes_ != 0) return false;
  of_node_ = all.size() / nodes_;
  devices_.resize(all.size());
  node_of_.resize(all.size());
  place_of_.resize(all.size());
  std::vector<size_t> placed(nodes_, 0);
  for (size_t d = 0; d < all.size(); ++d) {
    const auto node = static_cast<size_t>(all[d].node);
    const size_t place = placed[node]++;
    if (place == of_node_) return false;
    node_of_[d] = node;
    place_of_[d] = place;
    devices_[node * of_node_ + place] = DeviceId(static_cast<int32_t>(d));
    if (equal_devices[d] != equal_devices[At(0, place).index()]) return false;
    if (all[d].kind != all[At(0, place).index()].kind) return false;
  }
  // All orders of nodes follow from the exchange of two and the turn of all.
  std::vector<size_t> exchanged(nodes_), turned(nodes_);
  std::iota(exchanged.begin(), exchanged.end(), size_t{0});
  turned = exchanged;
  std::swap(exchanged[0], exchanged[1]);
  std::rotate(turned.begin(), turned.begin() + 1, turned.end());
  return IsSame(topology, exchanged) && IsSame(topology, turned);
}

bool AlikeNodes::IsSame(const DeviceTopology& topology, std::span<const size_t> places) const {
  const RouteTable& table = *topology.route_table();
  ChannelMapping mapping(topology);
  const auto other = [&](DeviceId device) {
    return At(places[node_of_[device.index()]], place_of_[device.index()]);
  };
  for (DeviceId from : devices_) {
    for (DeviceId to : devices_) {
      if (!mapping.Add(table.Of(from, to).channels, table.Of(other(from), other(to)).channels)) {
        return false;
      }
    }
  }
  return true;
}

void AlikeNodes::Renumber(std::span<const DeviceId> group,
                          std::vector<DeviceId>& renumbered) const {
  absl::InlinedVector<size_t, 32> number(nodes_, nodes_);  // nodes_: not met
  size_t met = 0;
  renumbered.clear();
  renumbered.reserve(group.size());
  for (DeviceId device : group) {
    size_t& node = number[node_of_[device.index()]];
    if (node == nodes_) node = met++;
    renumbered.push_back(At(node, place_of_[device.index()]));
  }
}

}  // namespace partita
