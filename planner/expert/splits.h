#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "graph/graph.h"
#include "graph/parallel/device_topology.h"
#include "graph/parallel/strategy.h"
#include "planner/space/recurrent_layers.h"
#include "planner/space/search_space.h"

namespace partita {

// Parts that experts make their configurations of. Times are linear in operators and in parts.

// Operators that read weights ahead of its reader at which the gather of a sharded weight begins: as
// many as hide the exchange behind compute, and no more than two weights beside each other.
inline constexpr int32_t kPrefetch = 1;

// FailedPrecondition on a machine of one device.
absl::Status NeedsSeveral(const DeviceTopology& topology);

// Devices by the node that they are on, each list ascending.
std::map<int, std::vector<DeviceId>> DevicesByNode(const DeviceTopology& topology);

// The widest loop with the role, if it can be split `ways` ways; -1 otherwise.
int WidestLoop(const Graph& graph, const Operator& op, LoopRole role, int64_t ways);

// Dimensions of the operator's first result.
size_t ResultRank(const Graph& graph, const Operator& op);

// Whether the operator applies a layer's weights to rows of features.
bool IsDense(const Graph& graph, const Operator& op);

// The configuration, or the split by sample where a product that it splits would not stay one
// interval for the operator or its helpers. `space` is of the same graph and devices.
ParallelConfig OrBySample(const SearchSpace& space, const Operator& op, ParallelConfig config,
                          const std::vector<DeviceId>& devices);

// choose(operator) as the configuration of every anchor, in topological order.
template <class Choose>
Strategy ForEachAnchor(const Graph& graph, Choose&& choose) {
  Strategy strategy = SingleDevice(graph, DeviceId(0));
  for (OpId id : graph.anchors()) strategy.configs[id.index()] = choose(graph.op(id));
  return strategy;
}

}  // namespace partita
