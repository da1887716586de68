// Data parallelism whose weights do not lie on every device (Rajbhandari, Rasley, Ruwase, He: ZeRO,
// SC 2020). Exchange makes a reduce-scatter of gradients for an update layout of shards, and an
// all-gather of what is read from one.
#include <utility>
#include <vector>

#include "graph/parallel/weight_layouts.h"
#include "planner/expert/expert_strategies.h"
#include "planner/expert/splits.h"

namespace partita {
namespace {

// Data parallelism in which `place(shards)` says where a trained weight lives.
template <class Place>
absl::StatusOr<Strategy> WithShards(const Graph& graph, const DeviceTopology& topology,
                                    Place&& place) {
  auto strategy = DataParallel(graph, topology);
  if (!strategy.ok()) return strategy;
  strategy->weights.resize(graph.weights().size());
  const std::vector<DeviceId> devices = DeviceRange(0, topology.size());
  for (size_t w = 0; w < graph.weights().size(); ++w) {
    const Weight& weight = graph.weights()[w];
    if (!weight.trainable) continue;
    strategy->weights[w] = place(EvenShards(graph.tensor(weight.tensor).type.shape, devices));
  }
  return strategy;
}

}  // namespace

absl::StatusOr<Strategy> Zero2(const Graph& graph, const DeviceTopology& topology) {
  return WithShards(graph, topology, [](std::vector<PlacedBox> shards) {
    return WeightPlacement{.update = std::move(shards)};
  });
}

absl::StatusOr<Strategy> Zero3(const Graph& graph, const DeviceTopology& topology) {
  return WithShards(graph, topology, [](std::vector<PlacedBox> shards) {
    return WeightPlacement{.parameter = shards, .update = std::move(shards), .prefetch = kPrefetch};
  });
}

}  // namespace partita
