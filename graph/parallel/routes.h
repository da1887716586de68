#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "graph/parallel/device_topology.h"

namespace partita {

// One channel for each shared link, two for each full-duplex link (first end to second, and back),
// in the order of the links.
std::vector<Channel> ChannelsOf(std::span<const Link> links);

// Devices (the first vertices), switches and media with the links between them.
struct VertexGraph {
  struct Edge {
    int32_t from = 0, to = 0;
    int32_t channel = -1;  // -1: none
    int64_t cost = 0;      // ns for what routes are compared by
  };
  int devices = 0;
  std::vector<Edge> edges;     // by `from`; those of one vertex in the order of the links
  std::vector<int32_t> begin;  // by vertex: its first edge; one more at the end
  int vertices() const { return static_cast<int>(begin.size()) - 1; }
  std::span<const Edge> EdgesOf(int32_t vertex) const {
    const auto v = static_cast<size_t>(vertex);
    return std::span(edges).subspan(static_cast<size_t>(begin[v]),
                                    static_cast<size_t>(begin[v + 1] - begin[v]));
  }
};

// The routes of a topology, each found when it is asked for; see DeviceTopology for which one is
// chosen. What was found is kept up to `most_kept` bytes, a quarter of them for groups; what it
// answers does not depend on that.
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

  int64_t kept_bytes() const;  // at present

 private:
  // By vertex: the edge by which routes from one device arrive there, -1 for none.
  using Tree = std::vector<int32_t>;

  Routes(VertexGraph graph, int64_t most_kept);
  Tree FindTree(DeviceId from) const;
  // Null where it would exceed what may be kept.
  const Tree* KeptTree(DeviceId from) const;
  void MarkChannels(const Tree& tree, std::span<const DeviceId> group,
                    std::vector<bool>& marked) const;

  const VertexGraph graph_;
  const int64_t most_kept_;
  // By device; set once, and owned by trees_.
  mutable std::vector<std::atomic<const Tree*>> tree_of_;
  mutable absl::Mutex mutex_;
  mutable std::vector<std::unique_ptr<const Tree>> trees_ ABSL_GUARDED_BY(mutex_);
  mutable absl::flat_hash_map<std::vector<DeviceId>, std::vector<ChannelId>> channels_of_group_
      ABSL_GUARDED_BY(mutex_);
  mutable int64_t tree_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  mutable int64_t group_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace partita
