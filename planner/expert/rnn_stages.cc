// Recurrent layers one after another on groups of neighbouring devices, each layer's weights split by
// output channel inside its group: pipeline and tensor parallelism together (as in Narayanan et al.
// 2021, for layers that recur). Steps of a sequence flow through the groups, and no weight is on two.

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "graph/support/error_category.h"
#include "planner/expert/expert_strategies.h"
#include "planner/expert/splits.h"
#include "planner/space/moves.h"
#include "planner/space/recurrent_layers.h"

namespace partita {
namespace {

// The stage of each anchor, by OpId: recurrent layers of one depth are one; the rest is in that of
// the last layer before it, or in the first.
std::vector<int> StagesOf(const Graph& graph, const std::vector<int>& layers) {
  const std::vector<int> depths = Depths(graph, layers);
  std::map<int, int> stage_of_depth;
  for (OpId id : graph.anchors()) {
    if (layers[id.index()] >= 0) stage_of_depth[depths[id.index()]] = 0;
  }
  int stages = 0;
  for (auto& [depth, stage] : stage_of_depth) stage = stages++;
  std::vector<int> stage_of(graph.ops().size(), 0);
  for (OpId id : graph.anchors()) {
    int& own = stage_of[id.index()];
    if (layers[id.index()] >= 0) {
      own = stage_of_depth.at(depths[id.index()]);
      continue;
    }
    for (TensorId input : graph.op(id).inputs) {
      for (OpId producer : graph.producers(input)) {
        const OpId maker = graph.op(producer).anchor;
        if (maker != kNoOp) own = std::max(own, stage_of[maker.index()]);
      }
    }
  }
  return stage_of;
}

// What reads no weights is split as a maker of its operands that is on the same devices.
std::optional<ParallelConfig> AsItsMaker(const SearchSpace& space, const Operator& op,
                                         const std::vector<DeviceId>& devices,
                                         const Strategy& strategy) {
  const Graph& graph = space.graph();
  for (TensorId input : op.inputs) {
    for (OpId maker : graph.producers(input)) {
      const ParallelConfig& config = strategy.configs[maker.index()];
      if (graph.op(maker).anchor != maker || config.devices != devices) continue;
      for (const auto split : {WithSameResultSplit, WithProducersBlocks}) {
        auto same = split(space, maker, config, op.id);
        if (same.has_value()) return same;
      }
    }
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<Strategy> RnnStages(const Graph& graph, const DeviceTopology& topology) {
  if (absl::Status status = NeedsSeveral(topology); !status.ok()) return status;
  const std::vector<int> layers = RecurrentLayers(graph);
  if (layers.empty()) return DeclinedError("the model has no recurrent layers");
  const std::vector<int> stage_of = StagesOf(graph, layers);
  const int stages = *std::max_element(stage_of.begin(), stage_of.end()) + 1;
  const int devices = topology.size();
  // Powers of two divide channels; neighbouring stages share a device where there are more of them.
  const auto width =
      static_cast<int32_t>(std::bit_floor(static_cast<uint32_t>(std::max(1, devices / stages))));
  const auto devices_of = [&](int stage) {
    return DeviceRange(stages <= devices ? stage * width : stage * devices / stages, width);
  };
  const SearchSpace space(graph, devices);
  Strategy strategy = SingleDevice(graph, DeviceId(0));
  for (OpId id : graph.anchors()) {
    const Operator& op = graph.op(id);
    const std::vector<DeviceId> group = devices_of(stage_of[id.index()]);
    std::optional<ParallelConfig> config;
    if (!HasWeights(graph, op)) {
      config = AsItsMaker(space, op, group, strategy);
    } else if (const int loop = WidestLoop(graph, op, LoopRole::kParameter, width); loop >= 0) {
      config = SplitAlong(graph.rule(id), loop, group);
    }
    strategy.configs[id.index()] =
        OrBySample(space, op, config.value_or(BySample(graph.rule(id), group)), group);
  }
  strategy.host_device = devices_of(stages - 1)[0];
  return strategy;
}

}  // namespace partita
