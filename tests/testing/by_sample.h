#pragma once

#include "graph/graph.h"
#include "graph/parallel/strategy.h"

namespace partita {

// Every operator that has so many split by its first loop, the samples, over all devices, with a copy
// of every weight on each; the others on device 0.
inline Strategy BySample(const Graph& graph, int devices) {
  Strategy strategy = SingleDevice(graph, DeviceId(0));
  for (OpId id : graph.anchors()) {
    const ShardingRule& rule = graph.rule(id);
    if (rule.loops.empty() || rule.loops[0].extent < devices) continue;
    ParallelConfig& config = strategy.configs[id.index()];
    config.degrees[0] = devices;
    config.devices.clear();
    for (int d = 0; d < devices; ++d) config.devices.push_back(DeviceId(d));
  }
  return strategy;
}

}  // namespace partita
