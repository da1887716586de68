#include "planner/space/neighbour_splits.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "graph/parallel/weight_layouts.h"
#include "planner/space/moves.h"

namespace partita {
namespace {

// The largest factor that goes from one degree to another; steps of it reach larger ones.
constexpr int32_t kMostTraded = 4;
constexpr size_t kMostInChain = 8;
// Configurations of like operators that are taken from them.
constexpr size_t kMostOfLike = 4;

// Configurations of an operator that fit it, each once, but for the one that it has.
class FittingConfigs {
 public:
  // Both outlive this.
  FittingConfigs(const SearchSpace& space, OpId op, const ParallelConfig& own)
      : space_(space), op_(op), own_(own) {}

  void Add(ParallelConfig config) {
    if (config == own_ || std::find(found_.begin(), found_.end(), config) != found_.end()) return;
    if (space_.Fits(op_, config)) found_.push_back(std::move(config));
  }

  std::vector<ParallelConfig> Take() { return std::move(found_); }

 private:
  const SearchSpace& space_;
  const OpId op_;
  const ParallelConfig& own_;
  std::vector<ParallelConfig> found_;
};

class SplitFinder {
 public:
  SplitFinder(const SearchSpace& space, const Strategy& strategy, OpId op)
      : space_(space),
        graph_(space.graph()),
        strategy_(strategy),
        op_(op),
        found_(space, op, strategy.configs[op.index()]) {}

  std::vector<ParallelConfig> Run() && {
    for (TensorId input : graph_.op(op_).inputs) {
      for (OpId maker : graph_.producers(input)) AddNeighbour(maker);
    }
    for (TensorId output : graph_.op(op_).outputs) {
      for (OpId reader : graph_.consumers(output)) AddNeighbour(reader);
    }
    AddOn(strategy_.configs[op_.index()].devices);
    AddOfLike();
    return found_.Take();
  }

 private:
  void AddNeighbour(OpId other) {
    const OpId anchor = graph_.op(other).anchor;
    if (anchor != other || anchor == op_) return;
    const ParallelConfig& model = strategy_.configs[anchor.index()];
    Add(WithProducersBlocks(space_, anchor, model, op_));
    Add(WithSameResultSplit(space_, anchor, model, op_));
    AddOn(model.devices);
  }

  // Configurations that others like it have.
  void AddOfLike() {
    std::vector<const ParallelConfig*> met = {&strategy_.configs[op_.index()]};
    for (OpId like : space_.AllLike(op_)) {
      const ParallelConfig& config = strategy_.configs[like.index()];
      const auto is_it = [&](const ParallelConfig* other) { return *other == config; };
      if (std::any_of(met.begin(), met.end(), is_it)) continue;
      if (met.size() > kMostOfLike) return;
      met.push_back(&config);
      Add(config);
    }
  }

  // Copies on the devices, and splits along one loop over all of them.
  void AddOn(const std::vector<DeviceId>& devices) {
    const ShardingRule& rule = graph_.rule(op_);
    const auto count = static_cast<int32_t>(devices.size());
    const std::vector<int32_t> whole(rule.loops.size(), 1);
    found_.Add({whole, count, devices});
    for (size_t l = 0; l < rule.loops.size(); ++l) {
      ParallelConfig config{whole, 1, devices};
      config.degrees[l] = count;
      found_.Add(std::move(config));
    }
  }

  void Add(std::optional<ParallelConfig> config) {
    if (config.has_value()) found_.Add(*std::move(config));
  }

  const SearchSpace& space_;
  const Graph& graph_;
  const Strategy& strategy_;
  const OpId op_;
  FittingConfigs found_;
};

// The first of devices that are neighbours, one after the other; nullopt for others.
std::optional<int32_t> FirstOfRange(const std::vector<DeviceId>& devices) {
  for (size_t k = 1; k < devices.size(); ++k) {
    if (devices[k].value() != devices[k - 1].value() + 1) return std::nullopt;
  }
  return devices[0].value();
}

bool MultipliesByWeights(const Graph& graph, OpId op) {
  const std::vector<TensorId>& inputs = graph.op(op).inputs;
  return std::any_of(inputs.begin(), inputs.end(), [&](TensorId input) {
    const Tensor& tensor = graph.tensor(input);
    return tensor.kind == TensorKind::kWeight && tensor.type.shape.size() > 1;
  });
}

}  // namespace

std::vector<ParallelConfig> NeighbourSplits(const SearchSpace& space, const Strategy& strategy,
                                            OpId op) {
  return SplitFinder(space, strategy, op).Run();
}

std::vector<ParallelConfig> TradedSplits(const SearchSpace& space, const Strategy& strategy,
                                         OpId op) {
  const ParallelConfig& own = strategy.configs[op.index()];
  FittingConfigs found(space, op, own);
  for (size_t from = 0; from <= own.degrees.size(); ++from) {
    for (size_t to = 0; to <= own.degrees.size(); ++to) {
      ParallelConfig traded = own;
      const int32_t degree = DegreeAt(traded, from);
      for (int32_t factor = 2; from != to && factor <= std::min(degree, kMostTraded); ++factor) {
        if (degree % factor != 0) continue;
        traded = own;
        DegreeAt(traded, from) /= factor;
        DegreeAt(traded, to) *= factor;
        found.Add(traded);
      }
    }
  }
  return found.Take();
}

std::vector<ParallelConfig> ShiftedSplits(const SearchSpace& space, const Strategy& strategy,
                                          OpId op) {
  const ParallelConfig& own = strategy.configs[op.index()];
  FittingConfigs found(space, op, own);
  const int32_t devices = space.devices();
  const auto width = static_cast<int32_t>(own.devices.size());
  for (int32_t by = width; by < devices; by *= 2) found.Add(MovedOn(own, by, devices));
  if (width < devices) found.Add(MovedOn(own, devices - width, devices));
  return found.Take();
}

std::vector<ParallelConfig> ResizedSplits(const SearchSpace& space, const Strategy& strategy,
                                          OpId op) {
  const ParallelConfig& own = strategy.configs[op.index()];
  FittingConfigs found(space, op, own);
  const std::optional<int32_t> first = FirstOfRange(own.devices);
  if (!first.has_value()) return {};
  const auto width = static_cast<int32_t>(own.devices.size());
  const int32_t wide_first = *first / (2 * width) * (2 * width), half = width / 2;
  const bool has_room = wide_first + 2 * width <= space.devices();
  for (size_t place = 0; has_room && place <= own.degrees.size(); ++place) {
    ParallelConfig wide = own;
    DegreeAt(wide, place) *= 2;
    wide.devices = DeviceRange(wide_first, 2 * width);
    found.Add(std::move(wide));
  }
  for (int32_t begin : {*first, *first + half}) {
    for (size_t place = 0; place <= own.degrees.size(); ++place) {
      ParallelConfig narrow = own;
      int32_t& degree = DegreeAt(narrow, place);
      if (degree % 2 != 0) continue;
      degree /= 2;
      narrow.devices = DeviceRange(begin, half);
      found.Add(std::move(narrow));
    }
  }
  return found.Take();
}

std::vector<OpId> AnchorsBehind(const Graph& graph, OpId op) {
  std::vector<OpId> anchors;
  for (TensorId output : graph.op(op).outputs) {
    for (OpId reader : graph.consumers(output)) {
      const bool is_known = std::find(anchors.begin(), anchors.end(), reader) != anchors.end();
      if (graph.op(reader).anchor == reader && !is_known) anchors.push_back(reader);
    }
  }
  return anchors;
}

std::vector<OpId> ChainBehind(const Graph& graph, OpId op) {
  std::vector<OpId> chain = {op};
  for (size_t k = 0; k < chain.size(); ++k) {
    for (OpId reader : AnchorsBehind(graph, chain[k])) {
      if (MultipliesByWeights(graph, reader)) continue;
      if (std::find(chain.begin(), chain.end(), reader) != chain.end()) continue;
      if (chain.size() > kMostInChain) break;
      chain.push_back(reader);
    }
  }
  chain.erase(chain.begin());
  return chain;
}

std::vector<MakerAndReader> ReadersBehind(const Graph& graph, OpId op) {
  std::vector<OpId> makers = ChainBehind(graph, op);
  makers.insert(makers.begin(), op);
  std::vector<MakerAndReader> readers;
  for (OpId maker : makers) {
    for (OpId reader : AnchorsBehind(graph, maker)) {
      const bool is_known = std::any_of(readers.begin(), readers.end(),
                                        [&](const auto& one) { return one.reader == reader; });
      if (MultipliesByWeights(graph, reader) && !is_known) readers.push_back({maker, reader});
    }
  }
  return readers;
}

WeightPlacement EvenPlacement(const SearchSpace& space, int32_t weight, size_t kind) {
  if (kind == 0) return {};
  const Graph& graph = space.graph();
  const std::vector<PlacedBox> shards =
      EvenShards(graph.tensor(graph.weights()[static_cast<size_t>(weight)].tensor).type.shape,
                 DeviceRange(0, space.devices()));
  if (kind == 1) return {.update = shards};
  return {.parameter = shards, .update = shards, .prefetch = 1};
}

}  // namespace partita
