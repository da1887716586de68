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

std::vector<CollectiveStepId> GradientSums(const Graph& graph, const TaskGraph& tasks) {
  std::vector<CollectiveStepId> sums;
  for (const Task& task : tasks.tasks()) {
    const auto* body = std::get_if<CollectiveTask>(&task.body);
    if (body == nullptr || body->collective.kind != CollectiveKind::kAllReduce) continue;
    const TensorId tensor(task.key.subject);
    const auto readers = graph.consumers(tensor);
    const bool is_gradient = !readers.empty() && graph.op(readers[0]).anchor == kNoOp;
    if (is_gradient) sums.push_back({tensor, task.key.step});
  }
  return sums;
}

}  // namespace partita
