#include "planner/space/search_space.h"

#include <algorithm>
#include <numeric>

#include "graph/parallel/parts.h"
#include "graph/support/check.h"

namespace partita {
namespace {

// Calls visit(degrees) for every vector of degrees whose product is at most `parts`.
template <class Visit>
void ForEachDegrees(const ShardingRule& rule, int64_t parts, std::vector<int32_t>& degrees,
                    size_t loop, Visit& visit) {
  if (loop == rule.loops.size()) {
    visit(degrees);
    return;
  }
  const LoopDim& dim = rule.loops[loop];
  const int64_t most = dim.splittable ? std::min<int64_t>(dim.extent, parts) : 1;
  for (int64_t degree = 1; degree <= std::max<int64_t>(1, most); ++degree) {
    if (parts / degree < 1) break;
    degrees[loop] = static_cast<int32_t>(degree);
    ForEachDegrees(rule, parts / degree, degrees, loop + 1, visit);
  }
  degrees[loop] = 1;
}

int64_t Product(const std::vector<int32_t>& degrees) {
  return std::accumulate(degrees.begin(), degrees.end(), int64_t{1}, std::multiplies<>());
}

}  // namespace

SearchSpace::SearchSpace(const Graph& graph, int devices) : graph_(graph), devices_(devices) {
  followers_.resize(graph.ops().size());
  for (const Operator& op : graph.ops()) {
    if (op.anchor != kNoOp) followers_[op.anchor.index()].push_back(op.id);
  }
  candidates_.resize(graph.ops().size());
  for (OpId anchor : graph.anchors()) candidates_[anchor.index()] = MeshConfigs(anchor);
}

bool SearchSpace::Fits(OpId anchor, const ParallelConfig& config) const {
  if (!ValidateConfig(graph_.rule(anchor), config, devices_).ok()) return false;
  for (OpId id : followers_[anchor.index()]) {
    if (!PartsOf(graph_, graph_.op(id), config).ok()) return false;
  }
  return true;
}

std::vector<ParallelConfig> SearchSpace::MeshConfigs(OpId anchor) const {
  const ShardingRule& rule = graph_.rule(anchor);
  std::vector<ParallelConfig> configs;
  std::vector<int32_t> degrees(rule.loops.size(), 1);
  auto visit = [&](const std::vector<int32_t>& chosen) {
    const auto parts = static_cast<int32_t>(Product(chosen));
    for (int32_t replicas = 1; replicas * parts <= devices_; ++replicas) {
      const int32_t width = replicas * parts;
      if (devices_ % width != 0 && width != parts) continue;
      for (int32_t first = 0; first + width <= devices_; first += width) {
        ParallelConfig config{chosen, replicas, {}};
        for (int32_t d = 0; d < width; ++d) config.devices.push_back(DeviceId(first + d));
        configs.push_back(std::move(config));
      }
    }
  };
  ForEachDegrees(rule, devices_, degrees, 0, visit);
  std::erase_if(configs, [&](const ParallelConfig& c) { return !Fits(anchor, c); });
  return configs;
}

const std::vector<ParallelConfig>& SearchSpace::Candidates(OpId anchor) const {
  return candidates_[anchor.index()];
}

ParallelConfig SearchSpace::Random(OpId anchor, std::mt19937_64& random) const {
  const auto& candidates = candidates_[anchor.index()];
  const ShardingRule& rule = graph_.rule(anchor);
  ParallelConfig config = candidates[random() % candidates.size()];
  if (random() % 4 != 0) return config;
  // Other devices: a random subset in random order, or parts that share devices.
  std::vector<DeviceId> devices(static_cast<size_t>(devices_));
  for (size_t d = 0; d < devices.size(); ++d) devices[d] = DeviceId(static_cast<int32_t>(d));
  for (size_t d = devices.size(); d > 1; --d) std::swap(devices[d - 1], devices[random() % d]);
  if (random() % 4 == 0) {
    const size_t loop = rule.loops.empty() ? 0 : random() % rule.loops.size();
    if (!rule.loops.empty() && rule.loops[loop].splittable &&
        config.degrees[loop] * 2 <= rule.loops[loop].extent) {
      config.degrees[loop] *= 2;
    }
  }
  const size_t parts = static_cast<size_t>(PartCount(config));
  config.devices.clear();
  for (size_t p = 0; p < parts; ++p) config.devices.push_back(devices[p % devices.size()]);
  return Fits(anchor, config) ? config : candidates[random() % candidates.size()];
}

Strategy SearchSpace::RandomStrategy(std::mt19937_64& random) const {
  Strategy strategy = SingleDevice(graph_, DeviceId(0));
  for (OpId anchor : graph_.anchors()) strategy.configs[anchor.index()] = Random(anchor, random);
  return strategy;
}

std::optional<ParallelConfig> Transplant(const SearchSpace& space, OpId from,
                                         const ParallelConfig& model, OpId anchor) {
  const ShardingRule& source = space.graph().rule(from);
  const ShardingRule& rule = space.graph().rule(anchor);
  ParallelConfig config{std::vector<int32_t>(rule.loops.size(), 1), model.replicas, model.devices};
  for (size_t l = 0; l < rule.loops.size(); ++l) {
    const int match = source.FindLoop(rule.loops[l].name);
    if (match >= 0) config.degrees[l] = model.degrees[static_cast<size_t>(match)];
  }
  if (PartCount(config) != static_cast<int64_t>(config.devices.size())) return std::nullopt;
  if (!space.Fits(anchor, config)) return std::nullopt;
  return config;
}

}  // namespace partita
