#include "tests/planner/strategies.h"

#include <algorithm>
#include <vector>

#include "graph/parallel/parts.h"
#include "graph/support/check.h"

namespace partita {
namespace {

// Whether the configuration works for all operators that take it.
bool Works(const Graph& graph, OpId anchor, const ParallelConfig& config, int devices) {
  if (!ValidateConfig(graph.rule(anchor), config, devices).ok()) return false;
  return std::all_of(graph.ops().begin(), graph.ops().end(), [&](const Operator& op) {
    return op.anchor != anchor || PartsOf(graph, op, config).ok();
  });
}

ParallelConfig FirstLoop(const Graph& graph, OpId anchor, int devices) {
  const ShardingRule& rule = graph.rule(anchor);
  for (size_t l = 0; l < rule.loops.size(); ++l) {
    ParallelConfig config;
    config.degrees.assign(rule.loops.size(), 1);
    config.degrees[l] = devices;
    for (int d = 0; d < devices; ++d) config.devices.push_back(DeviceId(d));
    if (Works(graph, anchor, config, devices)) return config;
  }
  return Unsplit(rule, DeviceId(0));
}

}  // namespace

Strategy SplitFirstLoop(const Graph& graph, int devices) {
  Strategy strategy = SingleDevice(graph, DeviceId(0));
  for (OpId id : graph.anchors()) {
    strategy.configs[id.index()] = FirstLoop(graph, id, devices);
  }
  CHECK(ValidateStrategy(graph, strategy, devices).ok());
  return strategy;
}

}  // namespace partita
