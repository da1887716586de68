#include "planner/expert/expert_strategies.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "graph/parallel/parts.h"
#include "graph/support/error_category.h"

namespace partita {
namespace {

// The operator split along one loop over the devices, as many ways as the loop allows; whole on the
// first device if it has no such loop.
ParallelConfig SplitAlong(const ShardingRule& rule, int loop,
                          const std::vector<DeviceId>& devices) {
  ParallelConfig config = Unsplit(rule, devices[0]);
  if (loop < 0 || !rule.loops[static_cast<size_t>(loop)].splittable) return config;
  const int64_t degree = std::min<int64_t>(rule.loops[static_cast<size_t>(loop)].extent,
                                           static_cast<int64_t>(devices.size()));
  if (degree < 2) return config;
  config.degrees[static_cast<size_t>(loop)] = static_cast<int32_t>(degree);
  config.devices.assign(devices.begin(), devices.begin() + degree);
  return config;
}

ParallelConfig BySample(const ShardingRule& rule, const std::vector<DeviceId>& devices) {
  return SplitAlong(rule, rule.FindLoop("n"), devices);
}

std::vector<bool> WeightOperands(const Graph& graph, const Operator& op) {
  std::vector<bool> weights;
  for (TensorId id : op.inputs) weights.push_back(graph.tensor(id).kind == TensorKind::kWeight);
  return weights;
}

bool HasWeights(const Graph& graph, const Operator& op) {
  const auto weights = WeightOperands(graph, op);
  return std::find(weights.begin(), weights.end(), true) != weights.end();
}

// The widest loop with the role, if it can be split `ways` ways without breaking a product; -1
// otherwise.
int WidestLoop(const Graph& graph, const Operator& op, LoopRole role, int64_t ways) {
  const ShardingRule& rule = graph.rule(op.id);
  const std::vector<bool> weights = WeightOperands(graph, op);
  const std::unique_ptr<bool[]> flags(new bool[weights.size()]);
  std::copy(weights.begin(), weights.end(), flags.get());
  int best = -1;
  for (size_t l = 0; l < rule.loops.size(); ++l) {
    const int loop = static_cast<int>(l);
    if (RoleOf(rule, loop, {flags.get(), weights.size()}) != role) continue;
    if (rule.loops[l].extent < ways || !rule.loops[l].splittable) continue;
    if (best < 0 || rule.loops[l].extent > rule.loops[static_cast<size_t>(best)].extent)
      best = loop;
  }
  return best;
}

size_t ResultRank(const Graph& graph, const Operator& op) {
  return graph.tensor(op.outputs[0]).type.shape.size();
}

// A weight layer on rows of features.
bool IsDense(const Graph& graph, const Operator& op) {
  return HasWeights(graph, op) && ResultRank(graph, op) <= 2 &&
         WidestLoop(graph, op, LoopRole::kReduction, 1) >= 0;
}

// Fails over to the sample split where a split product would not stay one interval.
ParallelConfig Checked(const Graph& graph, const Operator& op, ParallelConfig config,
                       const std::vector<DeviceId>& devices) {
  for (const Operator& other : graph.ops()) {
    if (other.anchor == op.id && !PartsOf(graph, other, config).ok()) {
      return BySample(graph.rule(op.id), devices);
    }
  }
  return config;
}

absl::Status NeedsSeveral(const DeviceTopology& topology) {
  if (topology.size() > 1) return absl::OkStatus();
  return DeclinedError("the machine has one device: there is nothing to split over");
}

template <class Choose>
Strategy ForEachAnchor(const Graph& graph, Choose&& choose) {
  Strategy strategy = SingleDevice(graph, DeviceId(0));
  for (OpId id : graph.anchors()) strategy.configs[id.index()] = choose(graph.op(id));
  return strategy;
}

constexpr ExpertRow kExperts[] = {
    {"single_device", SingleDeviceExpert, "everything on the first device"},
    {"data_parallel", DataParallel, "every operator by sample"},
    {"one_weird_trick", OneWeirdTrick,
     "convolutions by sample, fully connected layers by output channel, the loss by sample"},
    {"model_parallel", ModelParallel, "every operator by parameter or channel"},
    {"spatial", Spatial, "image operators by height, the rest by sample"},
    {"operator_placement", OperatorPlacement,
     "weight layers on one group of devices, padding and pooling on another"},
    {"zero2", Zero2, "every operator by sample; gradients and optimizer states in shards"},
    {"zero3", Zero3, "every operator by sample; weights, gradients and optimizer states in shards"},
};

}  // namespace

absl::StatusOr<Strategy> SingleDeviceExpert(const Graph& graph, const DeviceTopology&) {
  return SingleDevice(graph, DeviceId(0));
}

absl::StatusOr<Strategy> DataParallel(const Graph& graph, const DeviceTopology& topology) {
  if (absl::Status status = NeedsSeveral(topology); !status.ok()) return status;
  const std::vector<DeviceId> devices = DeviceRange(0, topology.size());
  return ForEachAnchor(graph,
                       [&](const Operator& op) { return BySample(graph.rule(op.id), devices); });
}

absl::StatusOr<Strategy> OneWeirdTrick(const Graph& graph, const DeviceTopology& topology) {
  if (absl::Status status = NeedsSeveral(topology); !status.ok()) return status;
  const std::vector<DeviceId> devices = DeviceRange(0, topology.size());
  bool any = false;
  // Tensors made of a fully connected layer's channel split: what follows element by element splits
  // alike.
  std::vector<bool> by_channel(graph.tensors().size(), false);
  Strategy strategy = ForEachAnchor(graph, [&](const Operator& op) {
    const ShardingRule& rule = graph.rule(op.id);
    ParallelConfig config = BySample(rule, devices);
    bool split = false;
    if (IsDense(graph, op)) {
      const int loop = WidestLoop(graph, op, LoopRole::kParameter, topology.size());
      // Of parameter loops the one that indexes the result; reductions are another role.
      if (loop >= 0) {
        config = SplitAlong(rule, loop, devices);
        split = any = true;
      }
    } else if (!HasWeights(graph, op) && !op.inputs.empty() && by_channel[op.inputs[0].index()] &&
               ResultRank(graph, op) == 2 && rule.FindLoop("c") >= 0 &&
               LoopsOf(rule.results[0].dims).Contains(rule.FindLoop("c")) &&
               rule.loops[static_cast<size_t>(rule.FindLoop("c"))].extent >= topology.size() &&
               rule.operands.size() == 1) {
      config = SplitAlong(rule, rule.FindLoop("c"), devices);
      split = true;
    }
    for (TensorId id : op.outputs) by_channel[id.index()] = split;
    return Checked(graph, op, config, devices);
  });
  if (!any) {
    return DeclinedError("the model has no fully connected layer that splits over all devices");
  }
  return strategy;
}

absl::StatusOr<Strategy> ModelParallel(const Graph& graph, const DeviceTopology& topology) {
  if (absl::Status status = NeedsSeveral(topology); !status.ok()) return status;
  const std::vector<DeviceId> devices = DeviceRange(0, topology.size());
  return ForEachAnchor(graph, [&](const Operator& op) {
    const ShardingRule& rule = graph.rule(op.id);
    int loop = -1;
    if (HasWeights(graph, op)) loop = WidestLoop(graph, op, LoopRole::kParameter, topology.size());
    if (loop < 0) {
      loop = rule.FindLoop("c");
      const bool fits = loop >= 0 &&
                        rule.loops[static_cast<size_t>(loop)].extent >= topology.size() &&
                        LoopsOf(rule.results[0].dims).Contains(loop);
      if (!fits) loop = rule.FindLoop("n");
    }
    return Checked(graph, op, SplitAlong(rule, loop, devices), devices);
  });
}

absl::StatusOr<Strategy> Spatial(const Graph& graph, const DeviceTopology& topology) {
  if (absl::Status status = NeedsSeveral(topology); !status.ok()) return status;
  const std::vector<DeviceId> devices = DeviceRange(0, topology.size());
  bool any = false;
  Strategy strategy = ForEachAnchor(graph, [&](const Operator& op) {
    const ShardingRule& rule = graph.rule(op.id);
    int loop = rule.FindLoop("oh");
    if (loop < 0 && ResultRank(graph, op) == 4) loop = rule.FindLoop("d2");
    if (loop < 0 || rule.loops[static_cast<size_t>(loop)].extent < 2) {
      return BySample(rule, devices);
    }
    any = true;
    return Checked(graph, op, SplitAlong(rule, loop, devices), devices);
  });
  if (!any) return DeclinedError("the model has no operator on images");
  return strategy;
}

absl::StatusOr<Strategy> OperatorPlacement(const Graph& graph, const DeviceTopology& topology) {
  if (absl::Status status = NeedsSeveral(topology); !status.ok()) return status;
  // Two device classes: weight layers on the class of the first device that is a GPU (else of
  // device 0). One class: the devices are halved, the larger half taking the weight layers.
  DeviceId lead(0);
  for (int d = topology.size(); d-- > 0;) {
    if (topology.device(DeviceId(d)).kind == DeviceKind::kGpu) lead = DeviceId(d);
  }
  std::vector<DeviceId> heavy, light;
  for (DeviceId device : DeviceRange(0, topology.size())) {
    const bool same = topology.device(device).device_class == topology.device(lead).device_class;
    (same ? heavy : light).push_back(device);
  }
  if (light.empty()) {
    const size_t half = (heavy.size() + 1) / 2;
    light.assign(heavy.begin() + static_cast<std::ptrdiff_t>(half), heavy.end());
    heavy.resize(half);
  }
  bool any = false;
  Strategy strategy = ForEachAnchor(graph, [&](const Operator& op) {
    const bool suits_cores = SuitsCores(op.attrs);
    any |= suits_cores;
    return BySample(graph.rule(op.id), suits_cores ? light : heavy);
  });
  if (!any) return DeclinedError("the model has no pooling or padding to place apart");
  strategy.host_device = heavy[0];
  return strategy;
}

std::span<const ExpertRow> ExpertStrategies() { return kExperts; }

absl::StatusOr<ExpertFunction> ExpertNamed(const std::string& name) {
  std::string names;
  for (const ExpertRow& row : kExperts) {
    if (name == row.name) return row.make;
    absl::StrAppend(&names, names.empty() ? "" : ", ", row.name);
  }
  return absl::NotFoundError(absl::StrCat("unknown strategy '", name, "'; known are: ", names));
}

std::vector<NamedStrategy> ExpertStarts(const Graph& graph, const DeviceTopology& topology) {
  std::vector<NamedStrategy> starts;
  for (const ExpertRow& row : kExperts) {
    auto strategy = row.make(graph, topology);
    if (strategy.ok()) starts.push_back({row.name, *std::move(strategy)});
  }
  return starts;
}

}  // namespace partita
