// How Wu et al. 2016 (arXiv 1609.08144) place recurrent models, FlexFlow's expert strategy for them
// (Jia, Zaharia, Aiken, MLSys 2019, section 8.2): every node has a copy of the model and a part of
// the batch, and on each node layers of one depth are on one device. Steps of a sequence flow
// through the layers like instructions through a pipeline.

#include <algorithm>
#include <map>
#include <vector>

#include "graph/support/error_category.h"
#include "planner/expert/expert_strategies.h"
#include "planner/expert/splits.h"
#include "planner/space/recurrent_layers.h"

namespace partita {

absl::StatusOr<Strategy> RnnPlacement(const Graph& graph, const DeviceTopology& topology) {
  if (absl::Status status = NeedsSeveral(topology); !status.ok()) return status;
  const std::vector<int> layers = RecurrentLayers(graph);
  if (layers.empty()) return DeclinedError("the model has no recurrent layers");
  const std::map<int, std::vector<DeviceId>> nodes = DevicesByNode(topology);
  size_t width = nodes.begin()->second.size();  // devices that every node has
  for (const auto& [node, devices] : nodes) width = std::min(width, devices.size());
  const std::vector<int> depths = Depths(graph, layers);
  const auto count = static_cast<size_t>(*std::max_element(depths.begin(), depths.end()) + 1);
  // Neighbouring depths on one device where there are more depths than devices.
  std::vector<std::vector<DeviceId>> places(count);
  for (size_t depth = 0; depth < count; ++depth) {
    const size_t place = count <= width ? depth : depth * width / count;
    for (const auto& [node, devices] : nodes) places[depth].push_back(devices[place]);
  }
  Strategy strategy = ForEachAnchor(graph, [&](const Operator& op) {
    return BySample(graph.rule(op.id), places[static_cast<size_t>(depths[op.id.index()])]);
  });
  strategy.host_device = places.back()[0];
  return strategy;
}

}  // namespace partita
