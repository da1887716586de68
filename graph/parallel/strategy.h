#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
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

// A step of the exchange of a tensor (TaskKey::step), one that is a collective.
struct CollectiveStepId {
  TensorId tensor;
  int32_t step = 0;
  friend auto operator<=>(const CollectiveStepId&, const CollectiveStepId&) = default;
};

// Algorithm of one collective.
struct AlgorithmChoice {
  CollectiveStepId collective;
  std::string algorithm;  // a row of CollectiveAlgorithms(), perhaps with settings
  friend bool operator==(const AlgorithmChoice&, const AlgorithmChoice&) = default;
};

// All-reduces that run as one: of one group of devices, element type and reduction, each read only
// behind the operators that make the others. Its elements are those of the members one after
// another. A tensor may be summed by several groups of devices, hence steps and not tensors.
struct Bucket {
  std::vector<CollectiveStepId> members;  // two or more
  std::string algorithm;                  // as AlgorithmChoice; empty: as if none was chosen
  friend bool operator==(const Bucket&, const Bucket&) = default;
};

// Split and placement of a whole graph over a machine, and how its collectives run.
struct Strategy {
  std::vector<ParallelConfig> configs;  // indexed by OpId; used for anchors, empty elsewhere
  std::vector<WeightPlacement>
      weights;              // indexed by position in Graph::weights(); may be empty: all default
  DeviceId host_device{0};  // holds the loss and metrics for the host to read
  // Algorithms of collectives outside of buckets; sorted, one for each. The others take the one of
  // PartitionOptions::algorithm.
  std::vector<AlgorithmChoice> algorithms = {};
  std::vector<Bucket> buckets = {};  // a collective is in one at most
  friend bool operator==(const Strategy&, const Strategy&) = default;
};

// Every operator whole, on one device.
Strategy SingleDevice(const Graph& graph, DeviceId device);

// Sizes and devices fit; configurations are valid for their operators, placements cover the
// weights, and collectives name tensors and algorithms that there are. Whether a tensor's exchange
// has these collectives, and those of a bucket go together, is seen where it is made (Partition).
absl::Status ValidateStrategy(const Graph& graph, const Strategy& strategy, int devices);
// The same but for splits of products, which calls of PartsOf for every operator report.
// `is_known`: for anchors whose configuration is valid for certain.
absl::Status ValidateSizes(
    const Graph& graph, const Strategy& strategy, int devices,
    absl::FunctionRef<bool(OpId)> is_known = [](OpId) { return false; });
// The part of it that is about collectives.
absl::Status ValidateCollectives(const Graph& graph, const Strategy& strategy);

}  // namespace partita
