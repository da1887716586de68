#include "planner/expert/expert_strategies.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "graph/support/error_category.h"
#include "graph/support/known_names.h"
#include "graph/support/option.h"
#include "planner/expert/splits.h"

namespace partita {
namespace {

constexpr ExpertRow kExperts[] = {
    {"single_device", SingleDeviceExpert, "everything on the first device"},
    {"data_parallel", DataParallel, "every operator by sample"},
    {"one_weird_trick", OneWeirdTrick,
     "convolutions by sample, fully connected layers by output channel, the loss by sample"},
    {"one_weird_trick_rounds", OneWeirdTrickRounds,
     "one_weird_trick with a round of fully connected layers for each device's samples"},
    {"model_parallel", ModelParallel, "every operator by parameter or channel"},
    {"spatial", Spatial, "image operators by height, the rest by sample"},
    {"operator_placement", OperatorPlacement,
     "weight layers on one group of devices, padding and pooling on another"},
    {"rnn_placement", RnnPlacement,
     "recurrent layers by depth over the devices of a node, nodes by sample"},
    {"rnn_stages", RnnStages,
     "recurrent layers one after another on groups of devices, each by parameter"},
    {"megatron", Megatron,
     "products of weights by column, then by row (1-D tensor parallelism), the rest on all "
     "devices"},
    {"data_tensor", DataTensor, "megatron on groups of devices inside a node, groups by sample"},
    {"tensor_2d", Tensor2d, "products of weights over a grid of devices, as SUMMA"},
    {"tensor_25d", Tensor25d, "products of weights over layers of square grids, as Tesseract"},
    {"tensor_3d", Tensor3d, "products of weights over a cube of devices"},
    {"hypergraph", HypergraphPlacement,
     "channels over devices, balanced, by the least that they send each other",
     /*on_part=*/false},  // takes seconds to make, for which no search has ended better
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

absl::StatusOr<Strategy> ModelParallel(const Graph& graph, const DeviceTopology& topology) {
  if (absl::Status status = NeedsSeveral(topology); !status.ok()) return status;
  const std::vector<DeviceId> devices = DeviceRange(0, topology.size());
  const SearchSpace space(graph, topology.size());
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
    return OrBySample(space, op, SplitAlong(rule, loop, devices), devices);
  });
}

absl::StatusOr<Strategy> Spatial(const Graph& graph, const DeviceTopology& topology) {
  if (absl::Status status = NeedsSeveral(topology); !status.ok()) return status;
  const std::vector<DeviceId> devices = DeviceRange(0, topology.size());
  const SearchSpace space(graph, topology.size());
  bool any = false;
  Strategy strategy = ForEachAnchor(graph, [&](const Operator& op) {
    const ShardingRule& rule = graph.rule(op.id);
    int loop = rule.FindLoop("oh");
    if (loop < 0 && ResultRank(graph, op) == 4) loop = rule.FindLoop("d2");
    if (loop < 0 || rule.loops[static_cast<size_t>(loop)].extent < 2) {
      return BySample(rule, devices);
    }
    any = true;
    return OrBySample(space, op, SplitAlong(rule, loop, devices), devices);
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

namespace {

// Null where there is none.
const ExpertRow* RowNamed(const std::string& name) {
  const ExpertRow* row = std::find_if(std::begin(kExperts), std::end(kExperts),
                                      [&](const ExpertRow& one) { return name == one.name; });
  return row == std::end(kExperts) ? nullptr : row;
}

}  // namespace

absl::StatusOr<ExpertFunction> ExpertNamed(const std::string& name) {
  if (const ExpertRow* row = RowNamed(name); row != nullptr) return row->make;
  return UnknownNameError("strategy", name, NamesOf(kExperts));
}

std::function<std::optional<Strategy>(const std::string& name, int devices)> ExpertsOnFewer(
    const Graph& graph, const DeviceTopology& topology) {
  using Made = std::map<std::pair<std::string, int>, std::optional<Strategy>>;
  return
      [&graph, &topology, made = std::make_shared<Made>()](const std::string& name, int devices) {
        const auto [kept, is_new] = made->try_emplace({name, devices});
        if (!is_new) return kept->second;
        const ExpertRow* row = RowNamed(name);
        const auto fewer = topology.TakeDevices(devices);
        if (row == nullptr || !row->on_part || !fewer.ok()) return kept->second;
        auto strategy = row->make(graph, *fewer);
        if (strategy.ok()) kept->second = *std::move(strategy);
        return kept->second;
      };
}

namespace {

std::vector<NamedStrategy> StartsOf(const Graph& graph, const DeviceTopology& topology,
                                    bool is_part) {
  std::vector<NamedStrategy> starts;
  for (const ExpertRow& row : kExperts) {
    if (is_part && !row.on_part) continue;
    auto strategy = row.make(graph, topology);
    if (strategy.ok()) starts.push_back({row.name, *std::move(strategy)});
  }
  return starts;
}

}  // namespace

std::vector<NamedStrategy> ExpertStarts(const Graph& graph, const DeviceTopology& topology) {
  return StartsOf(graph, topology, /*is_part=*/false);
}

std::vector<NamedStrategy> ExpertStartsOfPod(const Graph& graph, const DeviceTopology& pod) {
  return StartsOf(graph, pod, /*is_part=*/true);
}

}  // namespace partita
