#include "graph/parallel/route_table.h"

namespace partita {

RouteTable::RouteTable(const DeviceTopology& topology)
    : devices_(static_cast<size_t>(topology.size())) {
  begin_.reserve(devices_ * devices_ + 1);
  latency_.reserve(devices_ * devices_);
  begin_.push_back(0);
  for (int from = 0; from < topology.size(); ++from) {
    for (int to = 0; to < topology.size(); ++to) {
      Nanos latency;
      for (ChannelId channel : topology.Route(DeviceId(from), DeviceId(to))) {
        channels_.push_back(channel);
        latency += topology.channel(channel).latency;
      }
      begin_.push_back(static_cast<uint32_t>(channels_.size()));
      latency_.push_back(latency);
    }
  }
}

}  // namespace partita
