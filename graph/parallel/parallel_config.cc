#include "graph/parallel/parallel_config.h"

#include <algorithm>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"

namespace partita {
namespace {

// Lists of more devices are written as ranges.
constexpr size_t kFewDevices = 16;
// Ranges of such a list that are written, the last one included.
constexpr size_t kFewRanges = 4;

// Devices with equal distances between neighbours.
struct DeviceStride {
  int32_t first = 0, last = 0, step = 1;
};

std::vector<DeviceStride> StridesOf(std::span<const DeviceId> devices) {
  std::vector<DeviceStride> strides;
  for (size_t p = 0; p < devices.size();) {
    DeviceStride& stride = strides.emplace_back();
    stride.first = stride.last = devices[p].value();
    if (++p == devices.size()) break;
    stride.step = devices[p].value() - stride.first;
    if (stride.step == 0) continue;
    for (; p < devices.size() && devices[p].value() - stride.last == stride.step; ++p) {
      stride.last += stride.step;
    }
  }
  return strides;
}

std::string ToString(const DeviceStride& stride) {
  if (stride.first == stride.last) return absl::StrCat(stride.first);
  const std::string range = absl::StrCat(stride.first, "-", stride.last);
  return stride.step == 1 ? range : absl::StrCat(range, " by ", stride.step);
}

// As "3-9", "0,2,4"; of many devices "0-1016 by 8, 1-1017 by 8, 2-1018 by 8, .., 7-1023 by 8".
std::string DevicesText(std::span<const DeviceId> devices) {
  const std::vector<DeviceStride> strides = StridesOf(devices);
  if (strides.size() == 1 && strides[0].step == 1 && devices.size() > 2) {
    return ToString(strides[0]);
  }
  std::string text;
  if (devices.size() <= kFewDevices) {
    for (DeviceId device : devices) {
      absl::StrAppend(&text, text.empty() ? "" : ",", device.value());
    }
    return text;
  }
  const size_t written = std::min(strides.size(), kFewRanges);
  for (size_t k = 0; k + 1 < written; ++k) absl::StrAppend(&text, ToString(strides[k]), ", ");
  if (strides.size() > written) absl::StrAppend(&text, ".., ");
  return absl::StrCat(text, ToString(strides.back()));
}

}  // namespace

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

}  // namespace partita
