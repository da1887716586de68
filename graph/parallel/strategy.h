#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "graph/box.h"
#include "graph/graph.h"
#include "graph/parallel/parallel_config.h"

namespace partita {

// A region of a weight kept on a device.
struct PlacedBox {
  Box box;
  DeviceId device;
  friend bool operator==(const PlacedBox&, const PlacedBox&) = default;
};

// Layouts of a weight. Each layout covers every element and may hold copies. nullopt is the
// default: `parameter`: every region that an operator demands, where it is demanded; `update`: the
// parameter layout. Other values give the ZeRO family: copies / shards is ZeRO-2, shards / shards
// is ZeRO-3.
struct WeightPlacement {
  std::optional<std::vector<PlacedBox>> parameter;
  std::optional<std::vector<PlacedBox>> update;
  // Prefetch distance: the weight is gathered for forward operators and for gradients separately,
  // so that it takes no memory in between, and not before all but `prefetch` of the operators that
  // read weights in front of the reader have ended on the device (GatherOpener). nullopt: once for
  // all readers, at any time. At least 0.
  std::optional<int32_t> prefetch;
  friend bool operator==(const WeightPlacement&, const WeightPlacement&) = default;
};

// Split and placement of a whole graph over a machine.
struct Strategy {
  std::vector<ParallelConfig> configs;  // indexed by OpId; used for anchors, empty elsewhere
  std::vector<WeightPlacement>
      weights;              // indexed by position in Graph::weights(); may be empty: all default
  DeviceId host_device{0};  // holds the loss and metrics for the host to read
  friend bool operator==(const Strategy&, const Strategy&) = default;
};

// Every operator whole, on one device.
Strategy SingleDevice(const Graph& graph, DeviceId device);

// Sizes and devices fit; configurations are valid for their operators, and placements cover the
// weights.
absl::Status ValidateStrategy(const Graph& graph, const Strategy& strategy, int devices);
// The same but for splits of products, which calls of PartsOf for every operator report.
absl::Status ValidateSizes(const Graph& graph, const Strategy& strategy, int devices);

}  // namespace partita
