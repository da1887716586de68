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
    degrees[loop] = static_cast<int32_t>(degree);
    ForEachDegrees(rule, parts / degree, degrees, loop + 1, visit);
  }
  degrees[loop] = 1;
}

int64_t ProductOf(const std::vector<int32_t>& degrees) {
  return std::accumulate(degrees.begin(), degrees.end(), int64_t{1}, std::multiplies<>());
}

bool HasProduct(const std::vector<DimMap>& dims) {
  return std::any_of(dims.begin(), dims.end(),
                     [](const DimMap& map) { return map.loops.size() > 1; });
}

bool MayNotFit(const ShardingRule& rule) {
  return std::any_of(rule.operands.begin(), rule.operands.end(),
                     [](const OperandRule& operand) { return HasProduct(operand.dims); }) ||
         std::any_of(rule.results.begin(), rule.results.end(),
                     [](const ResultRule& result) { return HasProduct(result.dims); });
}

// Splits `ways` ways: each prime factor goes to a loop that still has room for it, or is dropped;
// half of the time all go to one loop.
std::vector<int32_t> RandomDegrees(const ShardingRule& rule, int64_t ways,
                                   std::mt19937_64& random) {
  std::vector<int32_t> degrees(rule.loops.size(), 1);
  if (rule.loops.empty()) return degrees;
  const size_t one = random() % rule.loops.size();
  if (random() % 2 == 0 && rule.loops[one].splittable && rule.loops[one].extent >= ways) {
    degrees[one] = static_cast<int32_t>(ways);
    return degrees;
  }
  for (int64_t prime = 2; ways > 1; ++prime) {
    for (; ways % prime == 0; ways /= prime) {
      std::vector<size_t> room;
      for (size_t l = 0; l < degrees.size(); ++l) {
        if (rule.loops[l].splittable && degrees[l] * prime <= rule.loops[l].extent) {
          room.push_back(l);
        }
      }
      if (room.empty()) continue;
      degrees[room[random() % room.size()]] *= static_cast<int32_t>(prime);
    }
  }
  return degrees;
}

std::vector<DeviceId> Shuffled(int devices, std::mt19937_64& random) {
  std::vector<DeviceId> order;
  for (int d = 0; d < devices; ++d) order.push_back(DeviceId(d));
  for (size_t d = order.size(); d > 1; --d) std::swap(order[d - 1], order[random() % d]);
  return order;
}

// The degrees along each dimension of the result; empty if a summed loop is split.
std::vector<int32_t> ResultDegrees(const ShardingRule& rule, const ParallelConfig& config) {
  std::vector<int32_t> degrees;
  int64_t parts = 1;
  for (const DimMap& map : rule.results[0].dims) {
    int32_t degree = 1;
    for (int8_t loop : map.loops) degree *= config.degrees[static_cast<size_t>(loop)];
    degrees.push_back(degree);
    parts *= degree;
  }
  return parts == ProductOf(config.degrees) ? degrees : std::vector<int32_t>();
}

// The last loop of a dimension that is long enough; -1 if none is.
int LoopWithRoom(const ShardingRule& rule, const DimMap& map, int32_t degree) {
  for (size_t k = map.loops.size(); k-- > 0;) {
    const LoopDim& loop = rule.loops[static_cast<size_t>(map.loops[k])];
    if (loop.splittable && loop.extent >= degree) return map.loops[k];
  }
  return -1;
}

}  // namespace

SearchSpace::SearchSpace(const Graph& graph, int devices) : graph_(graph), devices_(devices) {
  doubtful_.resize(graph.ops().size());
  for (const Operator& op : graph.ops()) {
    if (op.anchor != kNoOp && MayNotFit(graph.rule(op.id))) {
      doubtful_[op.anchor.index()].push_back(op.id);
    }
  }
}

bool SearchSpace::Fits(OpId anchor, const ParallelConfig& config) const {
  if (!ValidateConfig(graph_.rule(anchor), config, devices_).ok()) return false;
  return std::all_of(doubtful_[anchor.index()].begin(), doubtful_[anchor.index()].end(),
                     [&](OpId id) { return PartsOf(graph_, graph_.op(id), config).ok(); });
}

std::vector<ParallelConfig> SearchSpace::Candidates(OpId anchor) const {
  const ShardingRule& rule = graph_.rule(anchor);
  std::vector<ParallelConfig> configs;
  std::vector<int32_t> degrees(rule.loops.size(), 1);
  auto visit = [&](const std::vector<int32_t>& chosen) {
    const auto parts = static_cast<int32_t>(ProductOf(chosen));
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

ParallelConfig SearchSpace::Draw(OpId anchor, std::mt19937_64& random) const {
  const auto devices = static_cast<uint64_t>(devices_);
  // All devices half of the time; otherwise any number of ways, at times more than devices.
  uint64_t ways = devices;
  if (random() % 2 == 0) ways = 1 + random() % devices;
  const bool anywhere = random() % 4 == 0;
  if (anywhere && random() % 4 == 0) ways = devices * 2;
  // Copies spare communication where they cost little.
  const bool copies = random() % 4 == 0;
  if (copies && random() % 2 == 0) ways = 1;
  ParallelConfig config;
  config.degrees = RandomDegrees(graph_.rule(anchor), static_cast<int64_t>(ways), random);
  auto parts = static_cast<uint64_t>(ProductOf(config.degrees));
  if (copies && parts < devices) {
    config.replicas = static_cast<int32_t>(devices / parts);
    parts *= static_cast<uint64_t>(config.replicas);
  }
  if (anywhere || parts > devices) {
    const std::vector<DeviceId> order = Shuffled(devices_, random);
    for (uint64_t p = 0; p < parts; ++p) config.devices.push_back(order[p % devices]);
    return config;
  }
  const uint64_t first = random() % (devices / parts) * parts;
  for (uint64_t p = 0; p < parts; ++p) {
    config.devices.push_back(DeviceId(static_cast<int32_t>(first + p)));
  }
  return config;
}

ParallelConfig SearchSpace::Random(OpId anchor, std::mt19937_64& random) const {
  for (int attempt = 0; attempt < 8; ++attempt) {
    ParallelConfig config = Draw(anchor, random);
    if (Fits(anchor, config)) return config;
  }
  const auto device = static_cast<int32_t>(random() % static_cast<uint64_t>(devices_));
  return Unsplit(graph_.rule(anchor), DeviceId(device));
}

Strategy SearchSpace::RandomStrategy(std::mt19937_64& random) const {
  Strategy strategy = SingleDevice(graph_, DeviceId(0));
  for (OpId anchor : graph_.anchors()) strategy.configs[anchor.index()] = Random(anchor, random);
  return strategy;
}

namespace {

// The configuration of `anchor` that splits `dims`, of one of its operands or results, as wanted.
std::optional<ParallelConfig> SplitDims(const SearchSpace& space, OpId anchor,
                                        const std::vector<DimMap>& dims,
                                        const std::vector<int32_t>& wanted,
                                        const ParallelConfig& model) {
  const ShardingRule& rule = space.graph().rule(anchor);
  ParallelConfig config{std::vector<int32_t>(rule.loops.size(), 1), model.replicas, model.devices};
  for (size_t d = 0; d < std::min(wanted.size(), dims.size()); ++d) {
    const int loop = LoopWithRoom(rule, dims[d], wanted[d]);
    if (loop >= 0) config.degrees[static_cast<size_t>(loop)] = wanted[d];
  }
  if (PartCount(config) != static_cast<int64_t>(config.devices.size())) return std::nullopt;
  if (!space.Fits(anchor, config)) return std::nullopt;
  return config;
}

}  // namespace

std::optional<ParallelConfig> WithSameResultSplit(const SearchSpace& space, OpId from,
                                                  const ParallelConfig& model, OpId anchor) {
  const ShardingRule& rule = space.graph().rule(anchor);
  return SplitDims(space, anchor, rule.results[0].dims,
                   ResultDegrees(space.graph().rule(from), model), model);
}

std::optional<ParallelConfig> WithProducersBlocks(const SearchSpace& space, OpId from,
                                                  const ParallelConfig& model, OpId anchor) {
  const Graph& graph = space.graph();
  const std::vector<TensorId>& inputs = graph.op(anchor).inputs;
  const auto found = std::find(inputs.begin(), inputs.end(), graph.op(from).outputs[0]);
  if (found == inputs.end()) return std::nullopt;
  const auto operand = static_cast<size_t>(found - inputs.begin());
  return SplitDims(space, anchor, graph.rule(anchor).operands[operand].dims,
                   ResultDegrees(graph.rule(from), model), model);
}

}  // namespace partita
