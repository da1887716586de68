#include "planner/expert/splits.h"

#include <algorithm>

#include "graph/support/error_category.h"

namespace partita {

absl::Status NeedsSeveral(const DeviceTopology& topology) {
  if (topology.size() > 1) return absl::OkStatus();
  return DeclinedError("the machine has one device: there is nothing to split over");
}

std::map<int, std::vector<DeviceId>> DevicesByNode(const DeviceTopology& topology) {
  std::map<int, std::vector<DeviceId>> nodes;
  for (DeviceId device : DeviceRange(0, topology.size())) {
    nodes[topology.device(device).node].push_back(device);
  }
  return nodes;
}

int WidestLoop(const Graph& graph, const Operator& op, LoopRole role, int64_t ways) {
  const ShardingRule& rule = graph.rule(op.id);
  int best = -1;
  for (size_t l = 0; l < rule.loops.size(); ++l) {
    const int loop = static_cast<int>(l);
    if (RoleOf(graph, op, loop) != role) continue;
    if (rule.loops[l].extent < ways || !rule.loops[l].splittable) continue;
    if (best < 0 || rule.loops[l].extent > rule.loops[static_cast<size_t>(best)].extent)
      best = loop;
  }
  return best;
}

size_t ResultRank(const Graph& graph, const Operator& op) {
  return graph.tensor(op.outputs[0]).type.shape.size();
}

bool IsDense(const Graph& graph, const Operator& op) {
  return HasWeights(graph, op) && ResultRank(graph, op) <= 2 &&
         WidestLoop(graph, op, LoopRole::kReduction, 1) >= 0;
}

ParallelConfig OrBySample(const SearchSpace& space, const Operator& op, ParallelConfig config,
                          const std::vector<DeviceId>& devices) {
  return space.Fits(op.id, config) ? config : BySample(space.graph().rule(op.id), devices);
}

}  // namespace partita
