#include "graph/parallel/channel_loads.h"

#include <algorithm>
#include <memory>

#include "graph/parallel/level_routes.h"
#include "graph/parallel/route_table.h"
#include "graph/parallel/routes.h"

// Several messages of a device go down the tree of its routes, in which all devices but the root
// are leaves. First the ways from the messages' ends up to the root are counted at every junction
// that they meet; then bytes and latencies go up, past a junction when the last way has come in.

namespace partita {

// The tree of the routes from a device: of a topology by levels, or of one that lists its links,
// whose tree begins behind the edge that leads to its root.
struct ChannelLoads::Ways {
  using Step = LevelRoutes::Step;

  const LevelRoutes* levels;
  DeviceId root;
  const VertexGraph* graph = nullptr;
  const RouteTree* tree = nullptr;
  int32_t first = -1;  // the channel of that edge

  // `from` is -1 at the root.
  Step StepTo(int32_t vertex) const {
    if (levels != nullptr) return levels->StepTo(root, vertex);
    const VertexGraph::Edge* edge = tree->EdgeTo(*graph, vertex);
    return edge == nullptr ? Step() : Step{edge->from, edge->channel};
  }
};

ChannelLoads::ChannelLoads(const DeviceTopology& topology, bool uses_table)
    : topology_(topology), table_(uses_table ? topology.route_table() : nullptr) {
  for (const Channel& channel : topology.channels()) {
    loads_.push_back({0, 1 / static_cast<double>(channel.bytes_per_second)});
  }
  busy_.resize(loads_.size() + 1);
}

int64_t ChannelLoads::LatencyOf(int32_t channel) const {
  return channel < 0 ? 0 : topology_.channel(ChannelId(channel)).latency.value();
}

ChannelLoads::Junction& ChannelLoads::JunctionAt(int32_t vertex) {
  Junction& junction = junctions_[static_cast<size_t>(vertex)];
  if (junction.round != round_) junction = {.round = round_};
  return junction;
}

void ChannelLoads::AddOne(DeviceId from, const Message& message) {
  if (table_ != nullptr) {
    const RouteTable::Route route = table_->Of(from, message.to);
    return AddAlong(route.channels, route.latency, message);
  }
  const RouteChannels route = topology_.Route(from, message.to);
  Nanos latency;
  for (ChannelId channel : route) latency += topology_.channel(channel).latency;
  AddAlong(route, latency, message);
}

void ChannelLoads::AddAlong(std::span<const ChannelId> route, Nanos latency,
                            const Message& message) {
  latency_ = std::max(latency_, latency);
  if (message.bytes == 0 || route.empty()) return;
  if (message.on_last_channel) route = route.last(1);
  for (ChannelId channel : route) AddToChannel(channel, message.bytes);
}

void ChannelLoads::Add(DeviceId from, std::span<const Message> messages) {
  if (messages.empty()) return;
  if (messages.size() == 1 || table_ != nullptr) {
    for (const Message& message : messages) AddOne(from, message);
    return;
  }
  if (const LevelRoutes* levels = topology_.level_routes()) {
    junctions_.resize(static_cast<size_t>(levels->vertices()));
    AddOver({levels, from}, messages);
    const Junction& root = junctions_[from.index()];
    latency_ = std::max(latency_, Nanos(root.latency));
    return;
  }
  const Routes& routes = topology_.routes();
  const std::shared_ptr<const RouteTree> tree = routes.TreeFrom(from);
  junctions_.resize(static_cast<size_t>(routes.graph().vertices()));
  const VertexGraph::Edge* edge = routes.EdgeToRoot(from);
  const int32_t first = edge == nullptr ? -1 : edge->channel;
  AddOver({nullptr, from, &routes.graph(), tree.get(), first}, messages);
  const Junction& root = junctions_[static_cast<size_t>(routes.RootOf(from))];
  AddBytes(first, root.bytes);
  latency_ = std::max(latency_, Nanos(root.latency + LatencyOf(first)));
}

void ChannelLoads::AddOver(const Ways& ways, std::span<const Message> messages) {
  ++round_;
  ends_.clear();
  for (const Message& message : messages) AddEnd(ways, message);
  for (int32_t end : ends_) GoUp(ways, end);
}

// The last step of a message's way; and counts the way at the junctions up to where another one
// was before.
void ChannelLoads::AddEnd(const Ways& ways, const Message& message) {
  const Ways::Step last = ways.StepTo(message.to.value());
  AddBytes(last.channel, message.bytes);
  if (message.on_last_channel && last.channel < 0) {
    // A medium is left by an edge without a channel: the last channel is that of the one into it.
    const Ways::Step into = ways.StepTo(last.from);
    AddBytes(into.from >= 0 ? into.channel : ways.first, message.bytes);
  }
  int32_t vertex = last.from;
  const bool is_new = !IsMet(vertex);
  Junction& end = JunctionAt(vertex);
  if (!message.on_last_channel) end.bytes += message.bytes;
  end.latency = std::max(end.latency, LatencyOf(last.channel));
  if (!is_new) return;
  ends_.push_back(vertex);
  for (Ways::Step up = ways.StepTo(vertex); up.from >= 0; up = ways.StepTo(vertex)) {
    vertex = up.from;
    const bool met = IsMet(vertex);
    ++JunctionAt(vertex).open;
    if (met) return;
  }
}

// Takes what has come together at a junction up, as far as no other way is missing.
void ChannelLoads::GoUp(const Ways& ways, int32_t vertex) {
  while (true) {
    Junction& junction = junctions_[static_cast<size_t>(vertex)];
    if (junction.open != 0) return;
    junction.open = -1;  // done
    const Ways::Step up = ways.StepTo(vertex);
    if (up.from < 0) return;
    AddBytes(up.channel, junction.bytes);
    Junction& before = junctions_[static_cast<size_t>(up.from)];
    before.bytes += junction.bytes;
    before.latency = std::max(before.latency, junction.latency + LatencyOf(up.channel));
    --before.open;
    vertex = up.from;
  }
}

void ChannelLoads::Clear() {
  for (ChannelId channel : busy()) loads_[channel.index()].bytes = 0;
  busy_count_ = 0;
  busiest_seconds_ = 0;
  latency_ = Nanos(0);
}

}  // namespace partita
