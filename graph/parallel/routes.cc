#include "graph/parallel/routes.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"

// Dijkstra's search from a device over the graph of vertices. A shared medium with more than two
// ends is a vertex of its own (its hub): entering it costs what the medium costs, leaving it is
// free, so that k ends need 2k edges and not k*k.
//
// The whole tree of a device's routes takes 4 bytes for each vertex and is kept as long as all kept
// ones together are small; on machines of thousands of devices a route is searched for when it is
// asked for, and the search ends where the route does.

namespace partita {
namespace {

using Edge = VertexGraph::Edge;

constexpr int64_t kProbeBytes = int64_t{1} << 20;
constexpr int32_t kNone = -1;

int64_t ProbeCost(const Link& link) {
  const double transfer = 1e9 * static_cast<double>(kProbeBytes) / link.bytes_per_second;
  return link.latency.value() + static_cast<int64_t>(std::min(transfer, 1e15));
}

// Edges of all vertices, hubs included, which come behind the named ones.
std::vector<std::vector<Edge>> EdgesOf(std::span<const Device> devices,
                                       std::span<const Link> links) {
  absl::flat_hash_map<std::string, int32_t> vertices;
  for (const Device& device : devices) vertices.emplace(device.name, vertices.size());
  for (const Link& link : links) {
    for (const std::string& end : link.ends) vertices.emplace(end, vertices.size());
  }
  std::vector<std::vector<Edge>> edges(vertices.size());
  const auto connect = [&edges](int32_t from, int32_t to, int32_t channel, int64_t cost) {
    edges[static_cast<size_t>(from)].push_back({from, to, channel, cost});
  };
  int32_t channel = 0;
  for (const Link& link : links) {
    const int64_t cost = ProbeCost(link);
    if (link.ends.size() == 2) {
      const int32_t a = vertices[link.ends[0]], b = vertices[link.ends[1]];
      connect(a, b, channel, cost);
      connect(b, a, link.shared ? channel : channel + 1, cost);
    } else {
      const auto hub = static_cast<int32_t>(edges.size());
      edges.emplace_back();
      for (const std::string& end : link.ends) {
        connect(vertices[end], hub, channel, cost);
        connect(hub, vertices[end], kNone, 0);
      }
    }
    channel += link.shared ? 1 : 2;
  }
  return edges;
}

VertexGraph MakeGraph(std::span<const Device> devices, std::span<const Link> links) {
  VertexGraph graph{.devices = static_cast<int>(devices.size())};
  for (const std::vector<Edge>& edges : EdgesOf(devices, links)) {
    graph.begin.push_back(static_cast<int32_t>(graph.edges.size()));
    graph.edges.insert(graph.edges.end(), edges.begin(), edges.end());
  }
  graph.begin.push_back(static_cast<int32_t>(graph.edges.size()));
  return graph;
}

// How the search reached a vertex.
struct Arrival {
  int64_t cost = std::numeric_limits<int64_t>::max();
  int32_t hops = 0;
  int32_t edge = kNone;
};

// Until it has reached `target` for good; kNone: until it has been everywhere. `arrivals[vertex]`
// makes an Arrival where there is none.
template <class Arrivals>
void Search(const VertexGraph& graph, int32_t source, int32_t target, Arrivals& arrivals) {
  arrivals[source].cost = 0;
  using Entry = std::tuple<int64_t, int32_t, int32_t>;  // cost, hops, vertex
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  queue.emplace(0, 0, source);
  while (!queue.empty()) {
    const auto [cost, hops, vertex] = queue.top();
    queue.pop();
    const Arrival best = arrivals[vertex];
    if (std::tie(cost, hops) != std::tie(best.cost, best.hops)) continue;
    if (vertex == target) return;
    if (vertex < graph.devices && vertex != source) continue;  // devices do not forward
    for (int32_t e = graph.begin[vertex]; e < graph.begin[vertex + 1]; ++e) {
      const Edge& edge = graph.edges[e];
      Arrival& reached = arrivals[edge.to];
      const int64_t new_cost = cost + edge.cost;
      const int32_t new_hops = hops + (edge.channel != kNone);
      if (std::tie(new_cost, new_hops) >= std::tie(reached.cost, reached.hops)) continue;
      reached = {new_cost, new_hops, e};
      queue.emplace(new_cost, new_hops, edge.to);
    }
  }
}

// The channels on the way to a vertex; `edge_to(vertex)` is the edge by which the route arrives
// there, or kNone.
template <class EdgeTo>
RouteChannels WayTo(const VertexGraph& graph, int32_t to, EdgeTo&& edge_to) {
  RouteChannels channels;
  for (int32_t e = edge_to(to); e != kNone; e = edge_to(graph.edges[e].from)) {
    if (graph.edges[e].channel != kNone) channels.push_back(ChannelId(graph.edges[e].channel));
  }
  std::reverse(channels.begin(), channels.end());
  return channels;
}

// Which devices reach which: all that are next to one network of switches and media reach each
// other, and so do two with a link between them.
class Reach {
 public:
  explicit Reach(const VertexGraph& graph)
      : graph_(graph), network_of_(static_cast<size_t>(graph.vertices()), kNone) {
    for (int32_t v = graph.devices; v < graph.vertices(); ++v) {
      if (network_of_[v] == kNone) AddNetwork(v);
    }
  }

  // A device that this one does not reach, the first; kNone where it reaches all.
  int32_t FirstUnreached(int32_t from) const {
    std::vector<bool> reached(static_cast<size_t>(graph_.devices));
    reached[from] = true;
    std::vector<bool> seen(members_.size());
    for (const Edge& edge : graph_.EdgesOf(from)) {
      if (edge.to < graph_.devices) {
        reached[edge.to] = true;
        continue;
      }
      const int32_t network = network_of_[edge.to];
      if (seen[network]) continue;
      seen[network] = true;
      for (int32_t device : members_[network]) reached[device] = true;
    }
    const auto unreached = std::find(reached.begin(), reached.end(), false);
    return unreached == reached.end() ? kNone : static_cast<int32_t>(unreached - reached.begin());
  }

  bool OneNetworkHasAll() const {
    return std::any_of(members_.begin(), members_.end(), [this](const auto& members) {
      return static_cast<int>(members.size()) == graph_.devices;
    });
  }

 private:
  void AddNetwork(int32_t first) {
    const auto network = static_cast<int32_t>(members_.size());
    std::vector<int32_t>& members = members_.emplace_back();
    std::vector<int32_t> open = {first};
    network_of_[first] = network;
    while (!open.empty()) {
      const int32_t vertex = open.back();
      open.pop_back();
      for (const Edge& edge : graph_.EdgesOf(vertex)) {
        if (edge.to < graph_.devices) {
          members.push_back(edge.to);
        } else if (std::exchange(network_of_[edge.to], network) == kNone) {
          open.push_back(edge.to);
        }
      }
    }
    std::sort(members.begin(), members.end());
    members.erase(std::unique(members.begin(), members.end()), members.end());
  }

  const VertexGraph& graph_;
  std::vector<int32_t> network_of_;            // by vertex
  std::vector<std::vector<int32_t>> members_;  // by network: the devices next to it
};

absl::Status CheckConnected(const VertexGraph& graph, std::span<const Device> devices) {
  const Reach reach(graph);
  if (reach.OneNetworkHasAll()) return absl::OkStatus();
  for (int32_t from = 0; from < graph.devices; ++from) {
    const int32_t to = reach.FirstUnreached(from);
    if (to == kNone) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("no links lead from device '", devices[from].name, "' to device '",
                     devices[to].name, "'; add one (devices do not forward, switches do)"));
  }
  return absl::OkStatus();
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

absl::StatusOr<std::shared_ptr<const Routes>> Routes::Create(std::span<const Device> devices,
                                                             std::span<const Link> links,
                                                             int64_t most_kept) {
  VertexGraph graph = MakeGraph(devices, links);
  RETURN_IF_ERROR(CheckConnected(graph, devices));
  return std::shared_ptr<const Routes>(new Routes(std::move(graph), most_kept));
}

Routes::Routes(VertexGraph graph, int64_t most_kept)
    : graph_(std::move(graph)),
      most_kept_(most_kept),
      tree_of_(static_cast<size_t>(graph_.devices)) {}

RouteChannels Routes::Find(DeviceId from, DeviceId to) const {
  if (from == to) return {};
  if (const Tree* tree = KeptTree(from)) {
    return WayTo(graph_, to.value(), [tree](int32_t vertex) { return (*tree)[vertex]; });
  }
  absl::flat_hash_map<int32_t, Arrival> arrivals;
  Search(graph_, from.value(), to.value(), arrivals);
  return WayTo(graph_, to.value(), [&](int32_t vertex) { return arrivals[vertex].edge; });
}

std::vector<ChannelId> Routes::Between(std::span<const DeviceId> group) const {
  const std::vector<DeviceId> key(group.begin(), group.end());
  {
    absl::ReaderMutexLock lock(&mutex_);
    const auto known = channels_of_group_.find(key);
    if (known != channels_of_group_.end()) return known->second;
  }
  std::vector<bool> marked;
  for (DeviceId from : group) {
    const Tree* kept = KeptTree(from);
    MarkChannels(kept != nullptr ? *kept : FindTree(from), group, marked);
  }
  std::vector<ChannelId> channels;
  for (size_t c = 0; c < marked.size(); ++c) {
    if (marked[c]) channels.push_back(ChannelId(static_cast<int32_t>(c)));
  }
  const auto bytes =
      static_cast<int64_t>(sizeof(DeviceId) * key.size() + sizeof(ChannelId) * channels.size());
  absl::MutexLock lock(&mutex_);
  const bool keeps = group_bytes_ + bytes <= most_kept_ / 4;
  if (keeps && channels_of_group_.emplace(key, channels).second) group_bytes_ += bytes;
  return channels;
}

// The ways to a group share what they begin with: each vertex is passed once.
void Routes::MarkChannels(const Tree& tree, std::span<const DeviceId> group,
                          std::vector<bool>& marked) const {
  std::vector<bool> passed(tree.size());
  for (DeviceId to : group) {
    int32_t vertex = to.value();
    while (!passed[vertex] && tree[vertex] != kNone) {
      passed[vertex] = true;
      const Edge& edge = graph_.edges[tree[vertex]];
      vertex = edge.from;
      if (edge.channel == kNone) continue;
      const auto channel = static_cast<size_t>(edge.channel);
      if (channel >= marked.size()) marked.resize(channel + 1);
      marked[channel] = true;
    }
  }
}

Routes::Tree Routes::FindTree(DeviceId from) const {
  std::vector<Arrival> arrivals(static_cast<size_t>(graph_.vertices()));
  Search(graph_, from.value(), kNone, arrivals);
  Tree tree;
  tree.reserve(arrivals.size());
  for (const Arrival& arrival : arrivals) tree.push_back(arrival.edge);
  return tree;
}

const Routes::Tree* Routes::KeptTree(DeviceId from) const {
  std::atomic<const Tree*>& slot = tree_of_[from.index()];
  if (const Tree* kept = slot.load(std::memory_order_acquire)) return kept;
  const auto bytes = static_cast<int64_t>(sizeof(int32_t)) * graph_.vertices();
  absl::MutexLock lock(&mutex_);
  if (const Tree* kept = slot.load(std::memory_order_relaxed)) return kept;
  if (tree_bytes_ + bytes > most_kept_ / 4 * 3) return nullptr;
  tree_bytes_ += bytes;
  trees_.push_back(std::make_unique<const Tree>(FindTree(from)));
  slot.store(trees_.back().get(), std::memory_order_release);
  return trees_.back().get();
}

int64_t Routes::kept_bytes() const {
  absl::ReaderMutexLock lock(&mutex_);
  return tree_bytes_ + group_bytes_;
}

}  // namespace partita
