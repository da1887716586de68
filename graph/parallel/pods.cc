#include "graph/parallel/pods.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/parallel/parallel_config.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

DeviceId InPod(DeviceId device, int pod, Pods pods) {
  return DeviceId(device.value() + pod * pods.devices);
}

absl::Status NoPods(const Operator& op, const char* why) {
  return absl::InvalidArgumentError(absl::StrCat("operator '", op.name, "' ", why));
}

// The loop that is as many times longer as there are pods; nullopt where none is.
absl::StatusOr<std::optional<size_t>> BatchLoop(const Operator& op, const ShardingRule& one,
                                                const ShardingRule& all, Pods pods) {
  if (one.loops.size() != all.loops.size()) return NoPods(op, "has other loops at another batch");
  std::optional<size_t> loop;
  for (size_t l = 0; l < one.loops.size(); ++l) {
    if (all.loops[l].extent == one.loops[l].extent) continue;
    if (all.loops[l].extent != one.loops[l].extent * pods.count || loop.has_value()) {
      return NoPods(op, "has no loop that goes over the batch alone");
    }
    loop = l;
  }
  return loop;
}

// Every pod does it all.
ParallelConfig DoneByEach(ParallelConfig config, Pods pods) {
  const std::vector<DeviceId> devices = std::move(config.devices);
  config.replicas *= pods.count;
  config.devices.clear();
  for (int pod = 0; pod < pods.count; ++pod) {
    for (DeviceId device : devices) config.devices.push_back(InPod(device, pod, pods));
  }
  return config;
}

// Parts are numbered with the last loop fastest. Those before `loop` count `outer` blocks, copies
// included; each of them has degree * inner parts of a pod.
ParallelConfig SplitAlong(size_t loop, const ParallelConfig& config, Pods pods) {
  ParallelConfig split{config.degrees, config.replicas, {}};
  const auto degree = static_cast<size_t>(config.degrees[loop]);
  split.degrees[loop] *= pods.count;
  size_t inner = 1;
  for (size_t l = loop + 1; l < config.degrees.size(); ++l) {
    inner *= static_cast<size_t>(config.degrees[l]);
  }
  const size_t parts = degree * inner, outer = config.devices.size() / parts;
  split.devices.reserve(config.devices.size() * static_cast<size_t>(pods.count));
  for (size_t block = 0; block < outer; ++block) {
    for (int pod = 0; pod < pods.count; ++pod) {
      for (size_t part = 0; part < parts; ++part) {
        split.devices.push_back(InPod(config.devices[block * parts + part], pod, pods));
      }
    }
  }
  return split;
}

std::optional<std::vector<PlacedBox>> InEachPod(const std::optional<std::vector<PlacedBox>>& layout,
                                                Pods pods) {
  if (!layout.has_value()) return std::nullopt;
  std::vector<PlacedBox> all;
  for (int pod = 0; pod < pods.count; ++pod) {
    for (const PlacedBox& piece : *layout) {
      all.push_back({piece.box, InPod(piece.device, pod, pods)});
    }
  }
  return all;
}

// What the first pod has of a configuration of all pods, if their parts are alike.
ParallelConfig OfFirstPod(const std::optional<size_t>& loop, const ParallelConfig& config,
                          Pods pods) {
  ParallelConfig first{config.degrees, config.replicas, {}};
  (loop.has_value() ? first.degrees[*loop] : first.replicas) /= pods.count;
  std::ranges::copy_if(config.devices, std::back_inserter(first.devices),
                       [&](DeviceId device) { return device.value() < pods.devices; });
  return first;
}

std::optional<std::vector<PlacedBox>> InFirstPod(
    const std::optional<std::vector<PlacedBox>>& layout, Pods pods) {
  if (!layout.has_value()) return std::nullopt;
  std::vector<PlacedBox> first = *layout;
  std::erase_if(first,
                [&](const PlacedBox& piece) { return piece.device.value() >= pods.devices; });
  return first;
}

DeviceId LossDevice(const Graph& graph, const Strategy& strategy) {
  const auto loss = graph.tensors(TensorRole::kLoss);
  if (loss.empty()) return strategy.host_device;
  const OpId anchor = graph.op(graph.producers(loss[0])[0]).anchor;
  return strategy.configs[anchor.index()].devices[0];
}

}  // namespace

absl::StatusOr<Strategy> StrategyOfPods(const Graph& one, const Graph& all,
                                        const Strategy& strategy, Pods pods) {
  if (one.ops().size() != all.ops().size() || one.batch() * pods.count != all.batch()) {
    return absl::InvalidArgumentError(absl::StrCat(pods.count, " pods of batch ", one.batch(),
                                                   " are none of batch ", all.batch()));
  }
  Strategy spread;
  spread.host_device = LossDevice(one, strategy);
  spread.configs.resize(strategy.configs.size());
  for (OpId id : one.anchors()) {
    const ParallelConfig& config = strategy.configs[id.index()];
    ASSIGN_OR_RETURN(const std::optional<size_t> loop,
                     BatchLoop(one.op(id), one.rule(id), all.rule(id), pods));
    spread.configs[id.index()] =
        loop.has_value() ? SplitAlong(*loop, config, pods) : DoneByEach(config, pods);
  }
  for (const WeightPlacement& placement : strategy.weights) {
    spread.weights.push_back({InEachPod(placement.parameter, pods),
                              InEachPod(placement.update, pods), placement.prefetch});
  }
  return spread;
}

absl::StatusOr<Strategy> StrategyOfFirstPod(const Graph& one, const Graph& all,
                                            const Strategy& strategy, Pods pods) {
  Strategy first;
  first.host_device = DeviceId(strategy.host_device.value() % pods.devices);
  first.configs.resize(strategy.configs.size());
  for (OpId id : one.anchors()) {
    ASSIGN_OR_RETURN(const std::optional<size_t> loop,
                     BatchLoop(one.op(id), one.rule(id), all.rule(id), pods));
    first.configs[id.index()] = OfFirstPod(loop, strategy.configs[id.index()], pods);
    RETURN_IF_ERROR(ValidateConfig(one.rule(id), first.configs[id.index()], pods.devices));
  }
  for (const WeightPlacement& placement : strategy.weights) {
    first.weights.push_back({InFirstPod(placement.parameter, pods),
                             InFirstPod(placement.update, pods), placement.prefetch});
  }
  ASSIGN_OR_RETURN(Strategy again, StrategyOfPods(one, all, first, pods));
  again.algorithms = strategy.algorithms;
  again.buckets = strategy.buckets;
  if (again == strategy) return first;
  return absl::InvalidArgumentError(
      absl::StrCat("the strategy is not one of ", pods.count, " pods that do alike"));
}

}  // namespace partita
