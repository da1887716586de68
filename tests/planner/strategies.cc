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

class Draw {
 public:
  Draw(int devices, std::mt19937_64& random) : devices_(devices), random_(random) {}

  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  DeviceId Device() { return DeviceId(static_cast<int32_t>(Below(devices_))); }

  ParallelConfig Config(const ShardingRule& rule) {
    ParallelConfig config;
    config.degrees.assign(rule.loops.size(), 1);
    int64_t room = 1 + Below(2 * devices_);
    for (size_t tries = 0; tries < 2 && !rule.loops.empty(); ++tries) {
      const auto l = static_cast<size_t>(Below(static_cast<int64_t>(rule.loops.size())));
      if (config.degrees[l] > 1) continue;
      const int64_t degree = 1 + Below(std::min(room, rule.loops[l].extent));
      config.degrees[l] = static_cast<int32_t>(degree);
      room /= degree;
    }
    config.replicas =
        static_cast<int32_t>(1 + (Below(5) == 0 ? Below(std::max<int64_t>(room, 1)) : 0));
    const int64_t parts = PartCount(config);
    for (int64_t p = 0; p < parts; ++p) config.devices.push_back(Device());
    return config;
  }

  // Rows dealt out to random devices.
  std::vector<PlacedBox> Layout(const Shape& shape) {
    Box box = Box::Full(shape);
    if (shape.empty()) return {{box, Device()}};
    std::vector<PlacedBox> layout;
    const int64_t pieces = 1 + Below(std::min<int64_t>(shape[0], devices_));
    for (int64_t k = 0; k < pieces; ++k) {
      box[0] = BlockOf(shape[0], pieces, k);
      layout.push_back({box, Device()});
    }
    return layout;
  }

 private:
  int devices_;
  std::mt19937_64& random_;
};

}  // namespace

Strategy SplitFirstLoop(const Graph& graph, int devices) {
  Strategy strategy = SingleDevice(graph, DeviceId(0));
  for (OpId id : graph.anchors()) {
    strategy.configs[id.index()] = FirstLoop(graph, id, devices);
  }
  CHECK(ValidateStrategy(graph, strategy, devices).ok());
  return strategy;
}

Strategy RandomStrategy(const Graph& graph, int devices, std::mt19937_64& random) {
  Draw draw(devices, random);
  Strategy strategy = SingleDevice(graph, draw.Device());
  for (OpId id : graph.anchors()) {
    const ParallelConfig config = draw.Config(graph.rule(id));
    strategy.configs[id.index()] =
        Works(graph, id, config, devices) ? config : Unsplit(graph.rule(id), draw.Device());
  }
  for (size_t w = 0; w < strategy.weights.size(); ++w) {
    const Shape& shape = graph.tensor(graph.weights()[w].tensor).type.shape;
    if (draw.Below(4) == 0) strategy.weights[w].parameter = draw.Layout(shape);
    if (draw.Below(4) == 0) strategy.weights[w].update = draw.Layout(shape);
  }
  CHECK(ValidateStrategy(graph, strategy, devices).ok());
  return strategy;
}

}  // namespace partita
