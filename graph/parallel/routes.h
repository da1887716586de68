#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/parallel/device_topology.h"

namespace partita {

using DeviceNames = absl::flat_hash_set<absl::string_view>;
// The devices outlive the names.
DeviceNames NamesOf(std::span<const Device> devices);

// Appends the channels of a link: one of a shared link, two of a full-duplex one, first end to second,
// and back.
void AddChannels(const Link& link, const DeviceNames& devices, std::vector<Channel>& channels);

// Devices (the first vertices), switches and media with the links between them.
struct VertexGraph {
  struct Edge {
    int32_t from = 0, to = 0;
    int32_t channel = -1;  // -1: none
    int32_t back = 0;      // the edge that leads the other way
    int64_t cost = 0;      // ns for what routes are compared by
  };
  int devices = 0;
  std::vector<Edge> edges;     // sorted by `from`; those of one vertex in the order of the links
  std::vector<int32_t> begin;  // index of each vertex's first edge; one more at the end
  int vertices() const { return static_cast<int>(begin.size()) - 1; }
  std::span<const Edge> EdgesOf(int32_t vertex) const {
    const auto v = static_cast<size_t>(vertex);
    return std::span(edges).subspan(static_cast<size_t>(begin[v]),
                                    static_cast<size_t>(begin[v + 1] - begin[v]));
  }
};

// The routes from one vertex, its root: by which edge they arrive at every other one. An edge is
// kept as the place of its `back` among the edges of the vertex, in a byte where all places fit.
class RouteTree {
 public:
  // `arrivals`: by vertex, the edge or -1.
  RouteTree(const VertexGraph& graph, std::span<const int32_t> arrivals, bool narrow);

  // Null at the root, and where no route leads.
  const VertexGraph::Edge* EdgeTo(const VertexGraph& graph, int32_t vertex) const {
    const auto v = static_cast<size_t>(vertex);
    const int32_t place = narrow_.empty() ? wide_[v] : narrow_[v];
    if (place == 0) return nullptr;
    const auto& away = graph.edges[static_cast<size_t>(graph.begin[v] + place - 1)];
    return &graph.edges[static_cast<size_t>(away.back)];
  }

 private:
  std::vector<uint8_t> narrow_;  // by vertex: the place, counted from 1; 0: none
  std::vector<int32_t> wide_;
};

// The routes of a topology, each found when it is asked for; see DeviceTopology for which one is
// chosen. Devices with one link to the same switch share a tree. What was found is kept up to
// `most_kept` bytes, a quarter of them for groups; what it answers does not depend on that.
// For several threads at once.
class Routes {
 public:
  static constexpr int64_t kMostKept = int64_t{64} << 20;

  // InvalidArgument naming the first pair of devices that no links connect. The links are valid.
  static absl::StatusOr<std::shared_ptr<const Routes>> Create(std::span<const Device> devices,
                                                              std::span<const Link> links,
                                                              int64_t most_kept = kMostKept);

  RouteChannels Find(DeviceId from, DeviceId to) const;
  std::vector<ChannelId> Between(std::span<const DeviceId> group) const;

  const VertexGraph& graph() const { return graph_; }
  // Root of the tree for a device, and the edge that leads there: the device itself and none, or
  // the switch or medium that its only link leads to.
  int32_t RootOf(DeviceId device) const { return root_of_[device.index()]; }
  const VertexGraph::Edge* EdgeToRoot(DeviceId device) const;
  // The routes from RootOf(from).
  std::shared_ptr<const RouteTree> TreeFrom(DeviceId from) const;

  int64_t kept_bytes() const;   // at present
  int64_t trees_found() const;  // so far, kept or not

 private:
  Routes(VertexGraph graph, int64_t most_kept);
  RouteTree FindTree(int32_t root) const;
  // Null where it would exceed what may be kept.
  const RouteTree* KeptTree(int32_t root) const;
  std::vector<ChannelId> FindBetween(std::span<const DeviceId> group) const;

  const VertexGraph graph_;
  const int64_t most_kept_;
  std::vector<int32_t> root_of_;  // by device
  bool narrow_ = false;           // trees take a byte for each vertex
  // By root; set once, and owned by trees_.
  mutable std::vector<std::atomic<const RouteTree*>> tree_of_;
  mutable std::atomic<int64_t> trees_found_ = 0;
  mutable std::shared_mutex mutex_;  // of what follows
  mutable std::vector<std::unique_ptr<const RouteTree>> trees_;
  mutable absl::flat_hash_map<std::vector<DeviceId>, std::vector<ChannelId>> channels_of_group_;
  mutable int64_t tree_bytes_ = 0;
  mutable int64_t group_bytes_ = 0;
};

}  // namespace partita
