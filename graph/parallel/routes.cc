#include "graph/parallel/routes.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

// One Dijkstra search from every device over the graph of vertices. A shared medium with more than
// two ends is a vertex of its own (its hub): entering it costs what the medium costs, leaving it is
// free, so that k ends need 2k edges and not k*k.

namespace partita {
namespace {

constexpr int64_t kProbeBytes = int64_t{1} << 20;
constexpr int32_t kNoChannel = -1;

struct Edge {
  int32_t to = 0;
  int32_t channel = kNoChannel;
  int64_t cost = 0;  // ns for the probe
};

struct VertexGraph {
  int devices = 0;  // the first vertices
  std::vector<std::vector<Edge>> edges;
};

int64_t ProbeCost(const Link& link) {
  const double transfer = 1e9 * static_cast<double>(kProbeBytes) / link.bytes_per_second;
  return link.latency.value() + static_cast<int64_t>(std::min(transfer, 1e15));
}

VertexGraph MakeGraph(std::span<const Device> devices, std::span<const Link> links) {
  VertexGraph graph;
  graph.devices = static_cast<int>(devices.size());
  absl::flat_hash_map<std::string, int32_t> vertices;
  for (const Device& device : devices) vertices.emplace(device.name, vertices.size());
  for (const Link& link : links) {
    for (const std::string& end : link.ends) vertices.emplace(end, vertices.size());
  }
  graph.edges.resize(vertices.size());
  int32_t channel = 0;
  for (const Link& link : links) {
    const int64_t cost = ProbeCost(link);
    if (link.ends.size() == 2) {
      const int32_t a = vertices[link.ends[0]], b = vertices[link.ends[1]];
      graph.edges[a].push_back({b, channel, cost});
      graph.edges[b].push_back({a, link.shared ? channel : channel + 1, cost});
    } else {
      const int32_t hub = static_cast<int32_t>(graph.edges.size());
      graph.edges.emplace_back();
      for (const std::string& end : link.ends) {
        graph.edges[vertices[end]].push_back({hub, channel, cost});
        graph.edges[hub].push_back({vertices[end], kNoChannel, 0});
      }
    }
    channel += link.shared ? 1 : 2;
  }
  return graph;
}

// How the search reached a vertex.
struct Arrival {
  int64_t cost = std::numeric_limits<int64_t>::max();
  int32_t hops = 0;
  int32_t from = -1;
  int32_t channel = kNoChannel;
};

std::vector<Arrival> Search(const VertexGraph& graph, int32_t source) {
  std::vector<Arrival> arrivals(graph.edges.size());
  arrivals[source].cost = 0;
  using Entry = std::tuple<int64_t, int32_t, int32_t>;  // cost, hops, vertex
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  queue.emplace(0, 0, source);
  while (!queue.empty()) {
    const auto [cost, hops, vertex] = queue.top();
    queue.pop();
    const Arrival& best = arrivals[vertex];
    if (std::tie(cost, hops) != std::tie(best.cost, best.hops)) continue;
    if (vertex < graph.devices && vertex != source) continue;  // devices do not forward
    for (const Edge& edge : graph.edges[vertex]) {
      Arrival& reached = arrivals[edge.to];
      const int64_t new_cost = cost + edge.cost;
      const int32_t new_hops = hops + (edge.channel != kNoChannel);
      if (std::tie(new_cost, new_hops) >= std::tie(reached.cost, reached.hops)) continue;
      reached = {new_cost, new_hops, vertex, edge.channel};
      queue.emplace(new_cost, new_hops, edge.to);
    }
  }
  return arrivals;
}

void AppendRoute(const std::vector<Arrival>& arrivals, int32_t to,
                 std::vector<ChannelId>& channels) {
  const auto first = channels.size();
  for (int32_t v = to; arrivals[v].from >= 0; v = arrivals[v].from) {
    if (arrivals[v].channel != kNoChannel) channels.push_back(ChannelId(arrivals[v].channel));
  }
  std::reverse(channels.begin() + first, channels.end());
}

}  // namespace

std::vector<Channel> ChannelsOf(std::span<const Link> links) {
  std::vector<Channel> channels;
  for (const Link& link : links) {
    if (link.shared) {
      channels.push_back({link.name, link.bytes_per_second, link.latency});
      continue;
    }
    channels.push_back({absl::StrCat(link.name, ">"), link.bytes_per_second, link.latency});
    channels.push_back({absl::StrCat(link.name, "<"), link.bytes_per_second, link.latency});
  }
  return channels;
}

absl::StatusOr<RouteTable> FindRoutes(std::span<const Device> devices,
                                      std::span<const Link> links) {
  const VertexGraph graph = MakeGraph(devices, links);
  RouteTable table;
  table.begin.push_back(0);
  for (int32_t from = 0; from < graph.devices; ++from) {
    const std::vector<Arrival> arrivals = Search(graph, from);
    for (int32_t to = 0; to < graph.devices; ++to) {
      if (to != from && arrivals[to].from < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("no links lead from device '", devices[from].name, "' to device '",
                         devices[to].name, "'; add one (devices do not forward, switches do)"));
      }
      AppendRoute(arrivals, to, table.channels);
      table.begin.push_back(static_cast<int32_t>(table.channels.size()));
    }
  }
  return table;
}

}  // namespace partita
