#include "graph/parallel/parallel_config.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "graph/parallel/device_ranges.h"

namespace partita {

int64_t PartCount(const ParallelConfig& config) {
  int64_t parts = config.replicas;
  for (int32_t degree : config.degrees) parts *= degree;
  return parts;
}

ParallelConfig Unsplit(const ShardingRule& rule, DeviceId device) {
  return {std::vector<int32_t>(rule.loops.size(), 1), 1, {device}};
}

absl::Status ValidateConfig(const ShardingRule& rule, const ParallelConfig& config, int devices) {
  if (config.degrees.size() != rule.loops.size()) {
    return absl::InvalidArgumentError(absl::StrCat("found ", config.degrees.size(),
                                                   " degrees; the operator has ", rule.loops.size(),
                                                   " loops"));
  }
  if (config.replicas < 1) return absl::InvalidArgumentError("replicas must be at least 1");
  int64_t parts = config.replicas;
  for (size_t l = 0; l < rule.loops.size(); ++l) {
    const LoopDim& loop = rule.loops[l];
    const int32_t degree = config.degrees[l];
    if (degree < 1 || (degree > 1 && degree > loop.extent)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "loop '", loop.name, "' of extent ", loop.extent, " cannot be split ", degree, " ways"));
    }
    if (degree > 1 && !loop.splittable) {
      return absl::InvalidArgumentError(absl::StrCat("loop '", loop.name, "' does not split"));
    }
    parts *= degree;
    if (parts > (int64_t{1} << 24)) return absl::InvalidArgumentError("more than 2^24 parts");
  }
  if (parts != static_cast<int64_t>(config.devices.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("found ", config.devices.size(), " devices for ", parts, " parts"));
  }
  for (DeviceId device : config.devices) {
    if (device.value() < 0 || device.value() >= devices) {
      return absl::InvalidArgumentError(
          absl::StrCat("device ", device.value(), " does not exist; the machine has ", devices));
    }
  }
  return absl::OkStatus();
}

std::string ToString(const ShardingRule& rule, const ParallelConfig& config) {
  std::string text;
  for (size_t l = 0; l < config.degrees.size(); ++l) {
    if (config.degrees[l] > 1) {
      absl::StrAppend(&text, text.empty() ? "" : " ", rule.loops[l].name, "=", config.degrees[l]);
    }
  }
  if (config.replicas > 1) absl::StrAppend(&text, text.empty() ? "" : " ", "x", config.replicas);
  if (text.empty()) text = "whole";
  return absl::StrCat(text, " on ", DevicesText(config.devices));
}

LoopRole RoleOf(const ShardingRule& rule, int loop, std::span<const bool> is_weight) {
  for (const ResultRule& result : rule.results) {
    if (!LoopsOf(result.dims).Contains(loop)) return LoopRole::kReduction;
  }
  for (size_t k = 0; k < rule.operands.size() && k < is_weight.size(); ++k) {
    if (is_weight[k] && LoopsOf(rule.operands[k].dims).Contains(loop)) return LoopRole::kParameter;
  }
  if (!rule.results.empty() && !rule.results[0].dims.empty() &&
      LoopsOf({rule.results[0].dims[0]}).Contains(loop)) {
    return LoopRole::kSample;
  }
  return LoopRole::kAttribute;
}

LoopRole RoleOf(const Graph& graph, const Operator& op, int loop) {
  const std::unique_ptr<bool[]> is_weight(new bool[op.inputs.size()]);
  for (size_t k = 0; k < op.inputs.size(); ++k) {
    is_weight[k] = graph.tensor(op.inputs[k]).kind == TensorKind::kWeight;
  }
  return RoleOf(graph.rule(op.id), loop, {is_weight.get(), op.inputs.size()});
}

}  // namespace partita
