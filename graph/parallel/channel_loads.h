#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/parallel/device_topology.h"
#include "graph/support/strong_int.h"

namespace partita {

// Loads that messages under way at the same time put on each channel of their routes. Routes of
// messages from one device share what they begin with: together they cost what the union of their
// routes is long, so messages of one device are best added together.
class ChannelLoads {
 public:
  struct Message {
    DeviceId to;  // another device
    int64_t bytes = 0;
    // The bytes count on the last channel of the route only.
    bool on_last_channel = false;
  };

  // The topology outlives this. `uses_table`: its table of routes, where it has one.
  explicit ChannelLoads(const DeviceTopology& topology, bool uses_table = true);

  void Add(DeviceId from, std::span<const Message> messages);

  // The channels with bytes on them, each once, in no particular order.
  std::span<const ChannelId> busy() const { return std::span(busy_).first(busy_count_); }
  int64_t bytes(ChannelId channel) const { return loads_[channel.index()].bytes; }
  // Seconds that the busiest channel needs for its bytes, but for rounding.
  double BusiestSeconds() const { return busiest_seconds_; }
  // The longest of all routes: the sum of its channels' latencies.
  Nanos latency() const { return latency_; }

  // Forgets what was added.
  void Clear();

 private:
  // State of a vertex on the way to several devices.
  struct Junction {
    int64_t bytes = 0;    // to what lies behind
    int64_t latency = 0;  // to the farthest of that
    int32_t open = 0;     // ways behind it that have not been followed back to here
    uint32_t round = 0;   // of Add in which the rest holds
  };

  struct Load {
    int64_t bytes = 0;
    double seconds_per_byte = 0;
  };

  struct Ways;

  void AddOne(DeviceId from, const Message& message);
  // `latency`: of the whole route.
  void AddAlong(std::span<const ChannelId> route, Nanos latency, const Message& message);
  void AddOver(const Ways& ways, std::span<const Message> messages);
  void AddEnd(const Ways& ways, const Message& message);
  void GoUp(const Ways& ways, int32_t vertex);
  bool IsMet(int32_t vertex) const {
    return junctions_[static_cast<size_t>(vertex)].round == round_;
  }
  Junction& JunctionAt(int32_t vertex);
  void AddBytes(int32_t channel, int64_t bytes) {
    if (channel >= 0 && bytes > 0) AddToChannel(ChannelId(channel), bytes);
  }
  // Precondition: there are bytes.
  void AddToChannel(ChannelId channel, int64_t bytes) {
    Load& load = loads_[channel.index()];
    busy_[busy_count_] = channel;
    busy_count_ += load.bytes == 0 ? 1 : 0;
    load.bytes += bytes;
    const double seconds = static_cast<double>(load.bytes) * load.seconds_per_byte;
    busiest_seconds_ = seconds > busiest_seconds_ ? seconds : busiest_seconds_;
  }
  int64_t LatencyOf(int32_t channel) const;

  const DeviceTopology& topology_;
  const RouteTable* const table_;  // null for large machines
  std::vector<Load> loads_;        // by channel
  double busiest_seconds_ = 0;
  std::vector<ChannelId> busy_;  // the first ones, and room for all and one more
  size_t busy_count_ = 0;
  Nanos latency_;
  std::vector<Junction> junctions_;  // by vertex, once there were several messages
  uint32_t round_ = 0;
  std::vector<int32_t> ends_;  // vertices next to where messages go
};

}  // namespace partita
