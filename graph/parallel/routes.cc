#include "graph/parallel/routes.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <queue>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"

// Dijkstra's search from a device over the graph of vertices. A shared medium with more than two
// ends is a vertex of its own (its hub): entering it costs what the medium costs, leaving it is
// free, so that k ends need 2k edges and not k*k.
//
// The whole tree of a device's routes takes a byte for each vertex and is kept as long as all kept
// ones together are small. Where they would not be, a route is searched for when it is asked for,
// and the search ends where the route does.

namespace partita {
namespace {

using Edge = VertexGraph::Edge;

constexpr int64_t kProbeBytes = int64_t{1} << 20;
constexpr int32_t kNone = -1;

int64_t ProbeCost(const Link& link) {
  const double transfer = 1e9 * static_cast<double>(kProbeBytes) / link.bytes_per_second;
  return link.latency.value() + static_cast<int64_t>(std::min(transfer, 1e15));
}

// Edges of all vertices, hubs included, which come after the named ones.
std::vector<std::vector<Edge>> EdgesOf(std::span<const Device> devices,
                                       std::span<const Link> links) {
  absl::flat_hash_map<std::string, int32_t> vertices;
  for (const Device& device : devices) vertices.emplace(device.name, vertices.size());
  for (const Link& link : links) {
    for (const std::string& end : link.ends) vertices.emplace(end, vertices.size());
  }
  std::vector<std::vector<Edge>> edges(vertices.size());
  // One edge each way; `back` is the place among the edges of `to` for now.
  const auto connect = [&edges](int32_t a, int32_t b, const Edge& there, const Edge& back) {
    auto &from_a = edges[static_cast<size_t>(a)], &from_b = edges[static_cast<size_t>(b)];
    const auto place_a = static_cast<int32_t>(from_a.size());
    const auto place_b = static_cast<int32_t>(from_b.size());
    from_a.push_back({a, b, there.channel, place_b, there.cost});
    from_b.push_back({b, a, back.channel, place_a, back.cost});
  };
  int32_t channel = 0;
  for (const Link& link : links) {
    const int64_t cost = ProbeCost(link);
    if (link.ends.size() == 2) {
      const int32_t a = vertices[link.ends[0]], b = vertices[link.ends[1]];
      connect(a, b, {.channel = channel, .cost = cost},
              {.channel = link.shared ? channel : channel + 1, .cost = cost});
    } else {
      const auto hub = static_cast<int32_t>(edges.size());
      edges.emplace_back();
      for (const std::string& end : link.ends) {
        connect(vertices[end], hub, {.channel = channel, .cost = cost}, {});
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
  for (Edge& edge : graph.edges) edge.back += graph.begin[static_cast<size_t>(edge.to)];
  return graph;
}

// How the search reached a vertex.
struct Arrival {
  int64_t cost = std::numeric_limits<int64_t>::max();
  int32_t hops = 0;
  int32_t edge = kNone;
};

// Until it has reached `target` for good; kNone: until it has been everywhere. `arrivals[vertex]`
// makes an Arrival where there is none. Devices do not forward, so the search does not go on from
// them.
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
    for (int32_t e = graph.begin[vertex]; e < graph.begin[vertex + 1]; ++e) {
      const Edge& edge = graph.edges[e];
      Arrival& reached = arrivals[edge.to];
      const int64_t new_cost = cost + edge.cost;
      const int32_t new_hops = hops + (edge.channel != kNone);
      if (std::tie(new_cost, new_hops) >= std::tie(reached.cost, reached.hops)) continue;
      reached = {new_cost, new_hops, e};
      if (edge.to >= graph.devices || edge.to == target) {
        queue.emplace(new_cost, new_hops, edge.to);
      }
    }
  }
}

// The channels on the way to a vertex; `edge_to(vertex)` is the edge by which the route arrives
// there, or null. `first`, the edge that the way begins with, may be null, too.
template <class EdgeTo>
RouteChannels WayTo(int32_t to, const Edge* first, EdgeTo&& edge_to) {
  RouteChannels channels;
  const auto add = [&channels](const Edge& edge) {
    if (edge.channel != kNone) channels.push_back(ChannelId(edge.channel));
  };
  for (const Edge* edge = edge_to(to); edge != nullptr; edge = edge_to(edge->from)) add(*edge);
  if (first != nullptr) add(*first);
  std::reverse(channels.begin(), channels.end());
  return channels;
}

// By device: itself, or the switch or medium that its only link leads to.
std::vector<int32_t> RootsOf(const VertexGraph& graph) {
  std::vector<int32_t> roots;
  for (int32_t d = 0; d < graph.devices; ++d) {
    const auto edges = graph.EdgesOf(d);
    roots.push_back(edges.size() == 1 && edges[0].to >= graph.devices ? edges[0].to : d);
  }
  return roots;
}

bool PlacesFitAByte(const VertexGraph& graph) {
  for (int32_t v = 0; v < graph.vertices(); ++v) {
    if (graph.EdgesOf(v).size() > std::numeric_limits<uint8_t>::max()) return false;
  }
  return true;
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

DeviceNames NamesOf(std::span<const Device> devices) {
  DeviceNames names;
  names.reserve(devices.size());
  for (const Device& device : devices) names.insert(device.name);
  return names;
}

void AddChannels(const Link& link, const DeviceNames& devices, std::vector<Channel>& channels) {
  const bool at_device =
      link.ends.size() == 2 && (devices.contains(link.ends[0]) || devices.contains(link.ends[1]));
  const auto add = [&](const char* direction) {
    channels.push_back({.name = absl::StrCat(link.name, direction),
                        .bytes_per_second = link.bytes_per_second,
                        .latency = link.latency,
                        .at_device = at_device});
  };
  add(link.shared ? "" : ">");
  if (!link.shared) add("<");
}

absl::StatusOr<std::shared_ptr<const Routes>> Routes::Create(std::span<const Device> devices,
                                                             std::span<const Link> links,
                                                             int64_t most_kept) {
  VertexGraph graph = MakeGraph(devices, links);
  RETURN_IF_ERROR(CheckConnected(graph, devices));
  return std::shared_ptr<const Routes>(new Routes(std::move(graph), most_kept));
}

RouteTree::RouteTree(const VertexGraph& graph, std::span<const int32_t> arrivals, bool narrow) {
  (narrow ? narrow_.resize(arrivals.size()) : wide_.resize(arrivals.size()));
  for (size_t v = 0; v < arrivals.size(); ++v) {
    if (arrivals[v] == kNone) continue;
    const int32_t place = graph.edges[static_cast<size_t>(arrivals[v])].back - graph.begin[v] + 1;
    if (narrow) {
      narrow_[v] = static_cast<uint8_t>(place);
    } else {
      wide_[v] = place;
    }
  }
}

Routes::Routes(VertexGraph graph, int64_t most_kept)
    : graph_(std::move(graph)),
      most_kept_(most_kept),
      root_of_(RootsOf(graph_)),
      narrow_(PlacesFitAByte(graph_)),
      tree_of_(static_cast<size_t>(graph_.vertices())) {}

const Edge* Routes::EdgeToRoot(DeviceId device) const {
  return RootOf(device) == device.value() ? nullptr : &graph_.EdgesOf(device.value())[0];
}

RouteChannels Routes::Find(DeviceId from, DeviceId to) const {
  if (from == to) return {};
  if (const RouteTree* tree = KeptTree(RootOf(from))) {
    return WayTo(to.value(), EdgeToRoot(from),
                 [&](int32_t vertex) { return tree->EdgeTo(graph_, vertex); });
  }
  absl::flat_hash_map<int32_t, Arrival> arrivals;
  Search(graph_, from.value(), to.value(), arrivals);
  return WayTo(to.value(), nullptr, [&](int32_t vertex) -> const Edge* {
    const int32_t edge = arrivals[vertex].edge;
    return edge == kNone ? nullptr : &graph_.edges[static_cast<size_t>(edge)];
  });
}

std::shared_ptr<const RouteTree> Routes::TreeFrom(DeviceId from) const {
  const RouteTree* kept = KeptTree(RootOf(from));
  if (kept != nullptr) return {std::shared_ptr<const void>(), kept};  // lives as long as this
  return std::make_shared<const RouteTree>(FindTree(RootOf(from)));
}

std::vector<ChannelId> Routes::Between(std::span<const DeviceId> group) const {
  const std::vector<DeviceId> key(group.begin(), group.end());
  {
    const std::shared_lock lock(mutex_);
    const auto known = channels_of_group_.find(key);
    if (known != channels_of_group_.end()) return known->second;
  }
  std::vector<ChannelId> channels = FindBetween(group);
  const auto bytes =
      static_cast<int64_t>(sizeof(DeviceId) * key.size() + sizeof(ChannelId) * channels.size());
  const std::lock_guard lock(mutex_);
  const bool keeps = group_bytes_ + bytes <= most_kept_ / 4;
  if (keeps && channels_of_group_.emplace(key, channels).second) group_bytes_ += bytes;
  return channels;
}

// The ways from one root share what they begin with, so each vertex is passed once for each root;
// and devices with one root take the same ways, but for the first edge.
std::vector<ChannelId> Routes::FindBetween(std::span<const DeviceId> group) const {
  std::vector<DeviceId> by_root(group.begin(), group.end());
  std::sort(by_root.begin(), by_root.end(), [this](DeviceId a, DeviceId b) {
    return std::pair(RootOf(a), a) < std::pair(RootOf(b), b);
  });
  by_root.erase(std::unique(by_root.begin(), by_root.end()), by_root.end());
  std::vector<bool> marked;
  const auto mark = [&marked](const Edge* edge) {
    if (edge == nullptr || edge->channel == kNone) return;
    const auto channel = static_cast<size_t>(edge->channel);
    if (channel >= marked.size()) marked.resize(channel + 1);
    marked[channel] = true;
  };
  std::vector<int32_t> passed(static_cast<size_t>(graph_.vertices()), kNone);  // for which root
  for (size_t first = 0, next; by_root.size() > 1 && first < by_root.size(); first = next) {
    const int32_t root = RootOf(by_root[first]);
    for (next = first; next < by_root.size() && RootOf(by_root[next]) == root; ++next) {
      mark(EdgeToRoot(by_root[next]));
    }
    const std::shared_ptr<const RouteTree> tree = TreeFrom(by_root[first]);
    for (DeviceId to : by_root) {
      if (next == first + 1 && to == by_root[first]) continue;  // nobody else is there
      int32_t vertex = to.value();
      while (std::exchange(passed[static_cast<size_t>(vertex)], root) != root) {
        const Edge* edge = tree->EdgeTo(graph_, vertex);
        mark(edge);
        if (edge == nullptr) break;
        vertex = edge->from;
      }
    }
  }
  std::vector<ChannelId> channels;
  for (size_t c = 0; c < marked.size(); ++c) {
    if (marked[c]) channels.push_back(ChannelId(static_cast<int32_t>(c)));
  }
  return channels;
}

RouteTree Routes::FindTree(int32_t root) const {
  ++trees_found_;
  std::vector<Arrival> arrivals(static_cast<size_t>(graph_.vertices()));
  Search(graph_, root, kNone, arrivals);
  std::vector<int32_t> edges;
  edges.reserve(arrivals.size());
  for (const Arrival& arrival : arrivals) edges.push_back(arrival.edge);
  return RouteTree(graph_, edges, narrow_);
}

const RouteTree* Routes::KeptTree(int32_t root) const {
  std::atomic<const RouteTree*>& slot = tree_of_[static_cast<size_t>(root)];
  if (const RouteTree* kept = slot.load(std::memory_order_acquire)) return kept;
  const int64_t bytes = int64_t{narrow_ ? 1 : 4} * graph_.vertices();
  const auto may_keep = [&] { return tree_bytes_ + bytes <= most_kept_ / 4 * 3; };
  {
    const std::shared_lock lock(mutex_);
    if (!may_keep()) return nullptr;
  }
  auto tree = std::make_unique<const RouteTree>(FindTree(root));
  const std::lock_guard lock(mutex_);
  if (const RouteTree* kept = slot.load(std::memory_order_relaxed)) return kept;
  if (!may_keep()) return nullptr;
  tree_bytes_ += bytes;
  trees_.push_back(std::move(tree));
  slot.store(trees_.back().get(), std::memory_order_release);
  return trees_.back().get();
}

int64_t Routes::kept_bytes() const {
  const std::shared_lock lock(mutex_);
  return tree_bytes_ + group_bytes_;
}

int64_t Routes::trees_found() const { return trees_found_; }

}  // namespace partita
