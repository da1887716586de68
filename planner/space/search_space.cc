#include "planner/space/search_space.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>
#include <utility>

#include "graph/parallel/parts.h"
#include "graph/parallel/weight_layouts.h"
#include "graph/support/check.h"
#include "planner/space/like_operators.h"
#include "planner/space/recurrent_layers.h"

namespace partita {
namespace {

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
  std::vector<DeviceId> order = DeviceRange(0, devices);
  for (size_t d = order.size(); d > 1; --d) std::swap(order[d - 1], order[random() % d]);
  return order;
}

// Calls visit(first device, number of devices, replicas) for the places of a configuration of so
// many parts.
template <class Visit>
void ForEachMesh(int32_t parts, int32_t devices, Visit visit) {
  for (int32_t replicas = 1; replicas * parts <= devices; ++replicas) {
    const int32_t width = replicas * parts;
    if (devices % width != 0 && width != parts) continue;
    for (int32_t first = 0; first + width <= devices; first += width) visit(first, width, replicas);
  }
}

// Update layout sharded, or both layouts.
WeightPlacement Sharded(std::vector<PlacedBox> shards, bool both, int32_t prefetch) {
  if (!both) return {.update = std::move(shards)};
  return {.parameter = shards, .update = std::move(shards), .prefetch = prefetch};
}

// The operators and the trained weights.
std::vector<DecisionSubject> SearchedSubjects(const Graph& graph) {
  std::vector<DecisionSubject> subjects = DecisionSubjects(graph);
  std::erase_if(subjects, [&](DecisionSubject subject) {
    if (subject.kind == DecisionSubject::Kind::kOperator) return false;
    return subject.kind != DecisionSubject::Kind::kWeight ||
           !graph.weights()[static_cast<size_t>(subject.number)].trainable;
  });
  return subjects;
}

}  // namespace

std::vector<DeviceId> DeviceRange(int32_t first, int32_t count) {
  std::vector<DeviceId> devices;
  for (int32_t d = first; d < first + count; ++d) devices.push_back(DeviceId(d));
  return devices;
}

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

SearchSpace::SearchSpace(const Graph& graph, int devices)
    : SearchSpace(graph, devices, SearchedSubjects(graph)) {}

SearchSpace::SearchSpace(const Graph& graph, int devices, std::vector<DecisionSubject> subjects)
    : graph_(&graph), devices_(devices), subjects_(std::move(subjects)) {
  for (DecisionSubject subject : subjects_) {
    if (subject.kind == DecisionSubject::Kind::kOperator) {
      operators_.push_back(OpId(subject.number));
    } else {
      CHECK(subject.kind == DecisionSubject::Kind::kWeight) << "neither operator nor weight";
      weights_.push_back(subject.number);
    }
  }
  const std::vector<int32_t> classes = LikeClasses(graph);
  class_of_.assign(graph.ops().size(), -1);
  for (size_t a = 0; a < classes.size(); ++a) class_of_[graph.anchors()[a].index()] = classes[a];
  classes_.resize(classes.size());
  for (OpId op : operators_) classes_[static_cast<size_t>(class_of_[op.index()])].push_back(op);
  FindLayers();
  doubtful_.resize(graph.ops().size());
  for (const Operator& op : graph.ops()) {
    if (op.anchor != kNoOp && MayNotFit(graph.rule(op.id))) {
      doubtful_[op.anchor.index()].push_back(op.id);
    }
  }
}

SearchSpace SearchSpace::Without(std::span<const DecisionSubject> subjects) const {
  const std::set<DecisionSubject> dropped(subjects.begin(), subjects.end());
  std::vector<DecisionSubject> kept;
  std::copy_if(subjects_.begin(), subjects_.end(), std::back_inserter(kept),
               [&](DecisionSubject subject) { return dropped.count(subject) == 0; });
  return SearchSpace(*graph_, devices_, std::move(kept));
}

std::span<const OpId> SearchSpace::AllLike(OpId op) const {
  return classes_[static_cast<size_t>(class_of_[op.index()])];
}

void SearchSpace::FindLayers() {
  layer_of_ = RecurrentLayers(*graph_);
  layers_.resize(layer_of_.size());
  for (OpId op : operators_) {
    if (layer_of_.empty() || layer_of_[op.index()] < 0) continue;
    layers_[static_cast<size_t>(layer_of_[op.index()])].push_back(op);
    recurrent_.push_back(op);
  }
  for (OpId op : operators_) {
    const std::span<const OpId> layer = LayerOf(op);
    if (layer.empty()) by_layer_.push_back(op);
    if (!layer.empty() && layer[0] == op) {
      by_layer_.insert(by_layer_.end(), layer.begin(), layer.end());
    }
  }
}

std::span<const OpId> SearchSpace::LayerOf(OpId op) const {
  const int layer = layer_of_.empty() ? -1 : layer_of_[op.index()];
  if (layer < 0) return {};
  return layers_[static_cast<size_t>(layer)];
}

bool SearchSpace::Fits(OpId anchor, const ParallelConfig& config) const {
  if (!ValidateConfig(graph_->rule(anchor), config, devices_).ok()) return false;
  return std::all_of(doubtful_[anchor.index()].begin(), doubtful_[anchor.index()].end(),
                     [&](OpId id) { return HasParts(*graph_, graph_->op(id), config); });
}

template <class Ends, class Visit>
void SearchSpace::ForEachConfig(OpId anchor, Ends ends, Visit visit) const {
  const ShardingRule& rule = graph_->rule(anchor);
  std::vector<int32_t> degrees(rule.loops.size(), 1);
  bool is_over = false;
  auto of_degrees = [&](const std::vector<int32_t>& chosen) {
    is_over = is_over || ends();
    if (is_over) return;
    const auto parts = static_cast<int32_t>(ProductOf(chosen));
    if (!Fits(anchor, {chosen, 1, DeviceRange(0, parts)})) return;
    ForEachMesh(parts, devices_, [&](int32_t first, int32_t width, int32_t replicas) {
      visit(chosen, first, width, replicas);
    });
  };
  ForEachDegrees(rule, devices_, degrees, of_degrees);
}

std::vector<ParallelConfig> SearchSpace::Configs(OpId anchor,
                                                 const Interrupted& interrupted) const {
  std::vector<ParallelConfig> configs;
  ForEachConfig(
      anchor, [&] { return interrupted && interrupted(); },
      [&](const std::vector<int32_t>& degrees, int32_t first, int32_t width, int32_t replicas) {
        configs.push_back({degrees, replicas, DeviceRange(first, width)});
      });
  return configs;
}

int64_t SearchSpace::CountCandidates(DecisionSubject subject, int64_t most,
                                     const Interrupted& interrupted) const {
  int64_t count = 0;
  if (subject.kind != DecisionSubject::Kind::kOperator) {
    count = 1;  // the default
    for (int32_t width = 1; width <= devices_; ++width) count += 2 * (devices_ / width);
    return count;
  }
  ForEachConfig(
      OpId(subject.number), [&] { return count > most || (interrupted && interrupted()); },
      [&](const auto&...) { ++count; });
  return count;
}

std::vector<WeightPlacement> SearchSpace::Placements(size_t weight) const {
  const Shape& shape = graph_->tensor(graph_->weights()[weight].tensor).type.shape;
  std::vector<WeightPlacement> placements(1);
  for (int32_t width = 1; width <= devices_; ++width) {
    for (int32_t first = 0; first + width <= devices_; first += width) {
      const std::vector<PlacedBox> shards = EvenShards(shape, DeviceRange(first, width));
      placements.push_back(Sharded(shards, false, 0));
      placements.push_back(Sharded(shards, true, 1));
    }
  }
  return placements;
}

WeightPlacement SearchSpace::RandomPlacement(size_t weight, std::mt19937_64& random) const {
  if (random() % 4 == 0) return {};
  const auto devices = static_cast<uint64_t>(devices_);
  const uint64_t width = random() % 2 == 0 ? devices : 1 + random() % devices;
  const uint64_t first = random() % (devices / width) * width;
  const Shape& shape = graph_->tensor(graph_->weights()[weight].tensor).type.shape;
  const bool both = random() % 2 == 0;
  const auto prefetch = static_cast<int32_t>(random() % 3);
  return Sharded(
      EvenShards(shape, DeviceRange(static_cast<int32_t>(first), static_cast<int32_t>(width))),
      both, prefetch);
}

std::vector<Decision> SearchSpace::Candidates(DecisionSubject subject,
                                              const Interrupted& interrupted) const {
  std::vector<Decision> decisions;
  if (subject.kind == DecisionSubject::Kind::kOperator) {
    const OpId op(subject.number);
    for (ParallelConfig& config : Configs(op, interrupted)) {
      decisions.push_back(OperatorDecision{op, std::move(config)});
    }
    return decisions;
  }
  for (WeightPlacement& placement : Placements(static_cast<size_t>(subject.number))) {
    decisions.push_back(WeightDecision{subject.number, std::move(placement)});
  }
  return decisions;
}

Decision SearchSpace::Random(DecisionSubject subject, std::mt19937_64& random) const {
  if (subject.kind == DecisionSubject::Kind::kOperator) {
    const OpId op(subject.number);
    return OperatorDecision{op, RandomConfig(op, random)};
  }
  return WeightDecision{subject.number,
                        RandomPlacement(static_cast<size_t>(subject.number), random)};
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
  config.degrees = RandomDegrees(graph_->rule(anchor), static_cast<int64_t>(ways), random);
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

ParallelConfig SearchSpace::RandomConfig(OpId anchor, std::mt19937_64& random) const {
  for (int attempt = 0; attempt < 8; ++attempt) {
    ParallelConfig config = Draw(anchor, random);
    if (Fits(anchor, config)) return config;
  }
  const auto device = static_cast<int32_t>(random() % static_cast<uint64_t>(devices_));
  return Unsplit(graph_->rule(anchor), DeviceId(device));
}

Strategy SearchSpace::RandomStrategy(std::mt19937_64& random) const {
  Strategy strategy = SingleDevice(*graph_, DeviceId(0));
  for (OpId anchor : graph_->anchors())
    strategy.configs[anchor.index()] = RandomConfig(anchor, random);
  return strategy;
}

}  // namespace partita
