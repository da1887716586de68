#include "graph/parallel/strategy.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "graph/collective/algorithms.h"
#include "graph/parallel/parts.h"
#include "graph/support/status_macros.h"

namespace partita {

Strategy SingleDevice(const Graph& graph, DeviceId device) {
  Strategy strategy;
  strategy.configs.resize(graph.ops().size());
  for (OpId id : graph.anchors()) strategy.configs[id.index()] = Unsplit(graph.rule(id), device);
  strategy.weights.resize(graph.weights().size());
  strategy.host_device = device;
  return strategy;
}

namespace {

absl::Status ValidateLayout(const Tensor& tensor, const std::vector<PlacedBox>& layout,
                            int devices) {
  std::vector<Box> boxes;
  absl::flat_hash_set<std::pair<int, Box>> placed;
  for (const PlacedBox& piece : layout) {
    if (piece.box.rank() != static_cast<int>(tensor.type.shape.size()) || piece.box.empty() ||
        !Box::Full(tensor.type.shape).Contains(piece.box) || piece.device.value() < 0 ||
        piece.device.value() >= devices) {
      return absl::InvalidArgumentError(
          absl::StrCat("weight '", tensor.name, "' ", ToString(tensor.type), ": a layout places ",
                       ToString(piece.box), " on device ", piece.device.value(), " of ", devices));
    }
    if (!placed.emplace(piece.device.value(), piece.box).second) {
      return absl::InvalidArgumentError(absl::StrCat(
          "weight '", tensor.name, "': a layout places ", ToString(piece.box), " on device ",
          piece.device.value(), " twice; wanted each region once on a device"));
    }
    boxes.push_back(piece.box);
  }
  const std::vector<Box> missing = Uncovered(Box::Full(tensor.type.shape), boxes);
  if (!missing.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("weight '", tensor.name, "': no device holds ", ToString(missing[0])));
  }
  return absl::OkStatus();
}

absl::Status ValidateAlgorithm(const std::string& name) {
  if (FindCollectiveAlgorithm(name) != nullptr) return absl::OkStatus();
  std::string names;
  for (const CollectiveAlgorithm& row : CollectiveAlgorithms()) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", row.name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no collective algorithm is called '", name, "'; there are ", names));
}

absl::Status ValidateStep(const Graph& graph, const CollectiveStepId& id) {
  const bool exists = id.tensor.value() >= 0 && id.tensor.index() < graph.tensors().size();
  if (exists && id.step >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the strategy has a choice for the collective in step ", id.step, " of tensor ",
                   id.tensor.value(), "; the graph has ", graph.tensors().size(),
                   " tensors, and steps are 0 and more"));
}

}  // namespace

absl::Status ValidateCollectives(const Graph& graph, const Strategy& strategy) {
  const auto twice = [&](const CollectiveStepId& id) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the strategy names the collective in step ", id.step, " of tensor '",
        graph.tensor(id.tensor).name, "' twice; wanted it once, with an algorithm or in a bucket"));
  };
  const std::vector<AlgorithmChoice>& choices = strategy.algorithms;
  for (size_t k = 0; k < choices.size(); ++k) {
    RETURN_IF_ERROR(ValidateStep(graph, choices[k].collective));
    if (k == 0 || choices[k].algorithm != choices[k - 1].algorithm) {
      RETURN_IF_ERROR(ValidateAlgorithm(choices[k].algorithm));
    }
    if (k == 0 || choices[k - 1].collective < choices[k].collective) continue;
    if (choices[k - 1].collective == choices[k].collective) return twice(choices[k].collective);
    return absl::InvalidArgumentError(
        "the strategy's algorithms are not sorted by tensor and step");
  }
  std::set<CollectiveStepId> in_buckets;
  for (const Bucket& bucket : strategy.buckets) {
    std::set<TensorId> tensors;
    for (const CollectiveStepId& member : bucket.members) {
      RETURN_IF_ERROR(ValidateStep(graph, member));
      const bool is_chosen =
          std::ranges::binary_search(choices, member, {}, &AlgorithmChoice::collective);
      if (is_chosen || !in_buckets.insert(member).second) return twice(member);
      if (tensors.insert(member.tensor).second) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("a bucket has tensor '", graph.tensor(member.tensor).name, "' twice"));
    }
    if (bucket.members.size() < 2) {
      return absl::InvalidArgumentError(
          absl::StrCat("a bucket has ", bucket.members.size(), " all-reduces; wanted two or more"));
    }
    if (!bucket.algorithm.empty()) RETURN_IF_ERROR(ValidateAlgorithm(bucket.algorithm));
  }
  return absl::OkStatus();
}

absl::Status ValidateSizes(const Graph& graph, const Strategy& strategy, int devices,
                           absl::FunctionRef<bool(OpId)> is_known) {
  if (strategy.configs.size() != graph.ops().size()) {
    return absl::InvalidArgumentError(absl::StrCat("the strategy has ", strategy.configs.size(),
                                                   " configurations; the graph has ",
                                                   graph.ops().size(), " operators"));
  }
  if (strategy.host_device.value() < 0 || strategy.host_device.value() >= devices) {
    return absl::InvalidArgumentError("the host device does not exist");
  }
  for (OpId id : graph.anchors()) {
    if (is_known(id)) continue;
    const Operator& op = graph.op(id);
    const auto status = ValidateConfig(graph.rule(id), strategy.configs[id.index()], devices);
    if (!status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("operator '", op.name, "': ", status.message()));
    }
  }
  if (!strategy.weights.empty() && strategy.weights.size() != graph.weights().size()) {
    return absl::InvalidArgumentError(absl::StrCat("the strategy places ", strategy.weights.size(),
                                                   " weights; the graph has ",
                                                   graph.weights().size()));
  }
  for (size_t w = 0; w < strategy.weights.size(); ++w) {
    const Tensor& tensor = graph.tensor(graph.weights()[w].tensor);
    for (const auto& layout : {strategy.weights[w].parameter, strategy.weights[w].update}) {
      if (layout.has_value()) RETURN_IF_ERROR(ValidateLayout(tensor, *layout, devices));
    }
    if (const auto& prefetch = strategy.weights[w].prefetch;
        prefetch.has_value() && *prefetch < 0) {
      return absl::InvalidArgumentError(absl::StrCat("weight '", tensor.name,
                                                     "': its prefetch distance is ", *prefetch,
                                                     "; wanted 0 or more"));
    }
  }
  return ValidateCollectives(graph, strategy);
}

absl::Status ValidateStrategy(const Graph& graph, const Strategy& strategy, int devices) {
  RETURN_IF_ERROR(ValidateSizes(graph, strategy, devices));
  for (const Operator& op : graph.ops()) {
    if (op.anchor == kNoOp) continue;
    RETURN_IF_ERROR(PartsOf(graph, op, strategy.configs[op.anchor.index()]).status());
  }
  return absl::OkStatus();
}

}  // namespace partita
