#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/parallel/device_topology.h"

namespace partita {

// All routes of a small machine, for those who ask for them often. Takes memory in proportion to the
// square of its devices.
class RouteTable {
 public:
  static constexpr int kMostDevices = 128;

  struct Route {
    std::span<const ChannelId> channels;  // in order
    Nanos latency;                        // the sum of theirs
  };

  explicit RouteTable(const DeviceTopology& topology);

  Route Of(DeviceId from, DeviceId to) const {
    const size_t pair = from.index() * devices_ + to.index();
    return {std::span(channels_).subspan(begin_[pair], begin_[pair + 1] - begin_[pair]),
            latency_[pair]};
  }

 private:
  size_t devices_;
  std::vector<ChannelId> channels_;
  std::vector<uint32_t> begin_;  // indexed by pair; one more at the end
  std::vector<Nanos> latency_;   // indexed by pair
};

}  // namespace partita
