#include "tests/testing/random_strategy.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "graph/collective/algorithms.h"
#include "graph/parallel/parts.h"
#include "graph/parallel/weight_layouts.h"
#include "graph/support/check.h"

namespace partita {
namespace {

class StrategyGenerator {
 public:
  StrategyGenerator(const Graph& graph, int devices, std::mt19937_64& random)
      : graph_(graph), devices_(devices), random_(random) {
    for (int d = 0; d < devices; ++d) order_.push_back(DeviceId(d));
    std::shuffle(order_.begin(), order_.end(), random_);
  }

  Strategy Run() {
    Strategy strategy = SingleDevice(graph_, AnyDevice());
    mode_ = static_cast<Mode>(std::min(Below(6), 2));
    for (OpId anchor : graph_.anchors()) {
      for (int attempt = 0; attempt < 20; ++attempt) {
        ParallelConfig config = RandomConfig(graph_.rule(anchor));
        if (!Fits(anchor, config)) continue;
        strategy.configs[anchor.index()] = std::move(config);
        break;
      }
    }
    const bool default_weights = Chance(25);
    for (size_t w = 0; w < graph_.weights().size() && !default_weights; ++w) {
      strategy.weights[w] = RandomPlacement(graph_.tensor(graph_.weights()[w].tensor).type.shape);
    }
    strategy.host_device = AnyDevice();
    return strategy;
  }

 private:
  enum class Mode { kSampleSplits, kSubsets, kAny };

  int Below(int64_t n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  bool Chance(int percent) { return Below(100) < percent; }
  DeviceId AnyDevice() { return DeviceId(Below(devices_)); }

  ParallelConfig RandomConfig(const ShardingRule& rule) {
    ParallelConfig config = Unsplit(rule, AnyDevice());
    if (mode_ == Mode::kSampleSplits) {
      if (!rule.loops.empty() && rule.loops[0].splittable) {
        config.degrees[0] = static_cast<int32_t>(std::min<int64_t>(devices_, rule.loops[0].extent));
      }
    } else {
      SplitAnyLoops(rule, config);
    }
    const auto parts = static_cast<size_t>(PartCount(config));
    std::vector<DeviceId> pool = order_;
    if (Chance(70)) std::shuffle(pool.begin(), pool.end(), random_);
    if (mode_ == Mode::kSubsets) pool.resize(static_cast<size_t>(1 + Below(devices_)));
    config.devices.clear();
    const bool in_turn = mode_ != Mode::kAny || Chance(50);
    for (size_t p = 0; p < parts; ++p) {
      config.devices.push_back(in_turn ? pool[p % pool.size()] : AnyDevice());
    }
    return config;
  }

  void SplitAnyLoops(const ShardingRule& rule, ParallelConfig& config) {
    static constexpr int kParts[] = {1, 2, 3, 4, 6, 8, 9};
    int left = devices_ > 7 ? 8 + Below(16) : kParts[Below(7)];
    std::vector<size_t> loops;
    for (size_t l = 0; l < rule.loops.size(); ++l) loops.push_back(l);
    std::shuffle(loops.begin(), loops.end(), random_);
    for (size_t l : loops) {
      const int most = static_cast<int>(std::min<int64_t>(rule.loops[l].extent, left));
      if (!rule.loops[l].splittable || most < 2 || Chance(40)) continue;
      config.degrees[l] = Chance(50) ? most : 1 + Below(most);
      left /= config.degrees[l];
    }
    if (Chance(25)) config.replicas = 1 + Below(std::clamp(left + 1, 1, 3));
  }

  // Every operator of this anchor can be split so.
  bool Fits(OpId anchor, const ParallelConfig& config) const {
    if (!ValidateConfig(graph_.rule(anchor), config, devices_).ok()) return false;
    for (const Operator& op : graph_.ops()) {
      if (op.anchor == anchor && !PartsOf(graph_, op, config).ok()) return false;
    }
    return true;
  }

  WeightPlacement RandomPlacement(const Shape& shape) {
    switch (Below(5)) {
      case 0:
        return {};
      case 1:  // ZeRO-2
        return {std::nullopt, Shards(shape)};
      case 2: {  // ZeRO-3
        const std::vector<PlacedBox> shards = Shards(shape);
        return {shards, shards};
      }
      default:
        break;
    }
    WeightPlacement placement;
    if (Chance(80)) placement.parameter = AnyLayout(shape);
    if (Chance(80)) placement.update = AnyLayout(shape);
    // From a stream of its own, so that what else is drawn stays.
    std::mt19937_64 own(std::mt19937_64(random_)() ^ 0x9e3779b97f4a7c15);
    if (own() % 100 < 40) placement.prefetch = static_cast<int32_t>(own() % 3);
    return placement;
  }

  std::vector<PlacedBox> AnyLayout(const Shape& shape) {
    switch (Below(4)) {
      case 0:
        return {{Box::Full(shape), AnyDevice()}};
      case 1: {
        std::vector<PlacedBox> copies;
        for (DeviceId device : SomeDevices(devices_)) copies.push_back({Box::Full(shape), device});
        return copies;
      }
      case 2:
        return Shards(shape);
      default:
        return GridWithCopies(shape);
    }
  }

  // Between 1 and `most` different devices.
  std::vector<DeviceId> SomeDevices(int most) {
    std::vector<DeviceId> some = order_;
    std::shuffle(some.begin(), some.end(), random_);
    some.resize(static_cast<size_t>(1 + Below(std::min(most, devices_))));
    return some;
  }

  std::vector<PlacedBox> Shards(const Shape& shape) {
    if (shape.empty()) return {{Box::Full(shape), AnyDevice()}};
    const int axis = Below(static_cast<int64_t>(shape.size()));
    const auto extent = static_cast<int>(shape[static_cast<size_t>(axis)]);
    const std::vector<DeviceId> devices = SomeDevices(extent);
    std::vector<PlacedBox> shards;
    for (size_t k = 0; k < devices.size(); ++k) {
      Box box = Box::Full(shape);
      box[axis] = BlockOf(extent, static_cast<int64_t>(devices.size()), static_cast<int64_t>(k));
      shards.push_back({box, devices[k]});
    }
    return shards;
  }

  std::vector<PlacedBox> GridWithCopies(const Shape& shape) {
    std::vector<Box> boxes = {Box::Full(shape)};
    for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
      const int64_t extent = shape[static_cast<size_t>(d)];
      const int64_t cuts = 1 + Below(std::min<int64_t>(extent, 3));
      std::vector<Box> next;
      for (const Box& box : boxes) {
        for (int64_t k = 0; k < cuts; ++k) {
          next.push_back(box);
          next.back()[d] = BlockOf(extent, cuts, k);
        }
      }
      boxes = std::move(next);
    }
    std::vector<PlacedBox> pieces;
    for (const Box& box : boxes) {
      for (DeviceId device : SomeDevices(2)) pieces.push_back({box, device});
    }
    for (int copies = Below(3); copies > 0; --copies) {
      Box box(static_cast<int>(shape.size()));
      for (int d = 0; d < box.rank(); ++d) {
        const int64_t extent = shape[static_cast<size_t>(d)];
        const int64_t lo = Below(extent);
        box[d] = {lo, lo + 1 + Below(extent - lo)};
      }
      const PlacedBox piece{box, AnyDevice()};
      if (std::find(pieces.begin(), pieces.end(), piece) == pieces.end()) pieces.push_back(piece);
    }
    return pieces;
  }

  const Graph& graph_;
  const int devices_;
  std::mt19937_64& random_;
  std::vector<DeviceId> order_;
  Mode mode_ = Mode::kAny;
};

std::set<DeviceId> DeviceSet(const std::vector<Part>& parts) {
  std::set<DeviceId> devices;
  for (const Part& part : parts) devices.insert(part.device);
  return devices;
}

// The features of one pair.
class Features {
 public:
  Features(const Graph& graph, const Strategy& strategy, int devices)
      : graph_(graph), strategy_(strategy), parts_(graph.ops().size()) {
    for (const Operator& op : graph.ops()) {
      if (op.anchor == kNoOp) continue;
      auto parts = PartsOf(graph, op, strategy.configs[op.anchor.index()]);
      CHECK(parts.ok()) << parts.status();
      parts_[op.id.index()] = *std::move(parts);
    }
    for (OpId anchor : graph.anchors()) AddConfig(anchor, devices);
    for (const Operator& op : graph.ops()) AddOperator(op);
    for (const Tensor& tensor : graph.tensors()) AddTensor(tensor);
    AddWeights();
    AddCollectives();
    for (const Operator& op : graph.ops()) {
      if (!op.after.empty()) features_.insert("control edge");
    }
  }

  const std::set<std::string>& features() const { return features_; }

  // Counts operators whose parts differ along each loop.
  void CountSplits(std::map<std::string, int>& splits) const {
    for (const Operator& op : graph_.ops()) {
      const ShardingRule& rule = graph_.rule(op.id);
      const std::vector<Part> parts =
          op.anchor == kNoOp ? UpdatePartsOf(op) : parts_[op.id.index()];
      for (size_t l = 0; l < rule.loops.size(); ++l) {
        if (!rule.loops[l].splittable || rule.loops[l].extent < 2) continue;
        bool split = false;
        for (const Part& part : parts) split |= part.view.blocks[l] != parts[0].view.blocks[l];
        splits[absl::StrCat(NameOf(op.attrs), op.pass.is_forward() ? "." : ".gradient.",
                            rule.loops[l].name)] += split;
      }
    }
  }

 private:
  void AddConfig(OpId anchor, int devices) {
    const ParallelConfig& config = strategy_.configs[anchor.index()];
    const ShardingRule& rule = graph_.rule(anchor);
    for (size_t l = 0; l < rule.loops.size(); ++l) {
      if (config.degrees[l] > 1) features_.insert("split");
      if (rule.loops[l].extent % config.degrees[l] != 0) features_.insert("uneven");
    }
    const std::set<DeviceId> used(config.devices.begin(), config.devices.end());
    if (config.replicas > 1) features_.insert("replica");
    if (used.size() < config.devices.size()) features_.insert("several parts per device");
    if (static_cast<int>(used.size()) < devices) features_.insert("device subset");
    if (!std::is_sorted(config.devices.begin(), config.devices.end())) {
      features_.insert("permuted devices");
    }
  }

  void AddOperator(const Operator& op) {
    std::map<size_t, std::set<Box>> boxes;
    for (const Part& part : parts_[op.id.index()]) {
      for (size_t k = 0; k < part.view.operands.size(); ++k) {
        const TensorView& view = part.view.operands[k];
        if (!view.present) features_.insert("operand read once");
        if (view.present && view.box.empty()) features_.insert("empty box");
        boxes[k].insert(view.box);
      }
    }
    for (const auto& [k, distinct] : boxes) {
      for (auto a = distinct.begin(); a != distinct.end(); ++a) {
        for (auto b = std::next(a); b != distinct.end(); ++b) {
          if (Intersect(*a, *b)) features_.insert("overlapping operand boxes (halo)");
        }
      }
    }
  }

  void AddTensor(const Tensor& tensor) {
    const auto producers = graph_.producers(tensor.id);
    for (OpId producer : producers) {
      const Operator& op = graph_.op(producer);
      if (op.anchor == kNoOp) continue;
      for (OpId consumer : graph_.consumers(tensor.id)) {
        if (graph_.op(consumer).anchor != kNoOp &&
            DeviceSet(parts_[producer.index()]) != DeviceSet(parts_[consumer.index()])) {
          features_.insert("neighbours on different devices");
        }
      }
      const ShardingRule& rule = graph_.rule(producer);
      for (size_t r = 0; r < op.outputs.size(); ++r) {
        if (op.outputs[r] == tensor.id && IsPending(rule, r, parts_[producer.index()])) {
          features_.insert(rule.results[r].reduction == Reduction::kSum ? "pending sum"
                                                                        : "pending maximum");
        }
      }
    }
  }

  // Different parts have a term over one element.
  static bool IsPending(const ShardingRule& rule, size_t result, const std::vector<Part>& parts) {
    const LoopSet indexing = LoopsOf(rule.results[result].dims);
    for (size_t l = 0; l < rule.loops.size(); ++l) {
      if (indexing.Contains(static_cast<int>(l))) continue;
      for (const Part& part : parts) {
        if (part.view.results[result].present && part.view.blocks[l] != parts[0].view.blocks[l]) {
          return true;
        }
      }
    }
    return false;
  }

  std::vector<Part> UpdatePartsOf(const Operator& op) const {
    const std::vector<std::span<const Part>> spans(parts_.begin(), parts_.end());
    for (size_t w = 0; w < graph_.weights().size(); ++w) {
      if (graph_.weights()[w].tensor != op.anchor_weight) continue;
      auto parts = UpdateParts(graph_, op, ResolveWeightLayout(graph_, strategy_, w, spans).update);
      CHECK(parts.ok()) << parts.status();
      return *std::move(parts);
    }
    return {};
  }

  void AddCollectives() {
    if (!strategy_.algorithms.empty()) features_.insert("chosen algorithm");
    if (!strategy_.buckets.empty()) features_.insert("bucket");
    for (const Bucket& bucket : strategy_.buckets) {
      if (bucket.members.size() > 2) features_.insert("bucket of three and more");
    }
  }

  void AddWeights() {
    for (const WeightPlacement& placement : strategy_.weights) {
      if (placement.parameter.has_value()) features_.insert("parameter layout");
      if (placement.update.has_value()) features_.insert("update layout");
      if (placement.prefetch.has_value()) features_.insert("gathered twice");
      if (!placement.parameter.has_value()) continue;
      const auto& pieces = *placement.parameter;
      for (size_t a = 0; a < pieces.size(); ++a) {
        for (size_t b = a + 1; b < pieces.size(); ++b) {
          if (pieces[a].box != pieces[b].box && Intersect(pieces[a].box, pieces[b].box)) {
            features_.insert("overlapping copies");
          }
        }
      }
    }
  }

  const Graph& graph_;
  const Strategy& strategy_;
  std::vector<std::vector<Part>> parts_;
  std::set<std::string> features_;
};

}  // namespace

Strategy RandomStrategy(const Graph& graph, int devices, std::mt19937_64& random) {
  return StrategyGenerator(graph, devices, random).Run();
}

PartitionOptions RandomPartitionOptions(std::mt19937_64& random) {
  auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint64_t>(n)); };
  PartitionOptions options;
  options.devices = below(8) == 0 ? 8 + below(9) : 1 + below(6);
  const int per_node = 1 + below(4);
  for (int d = 0; d < options.devices && per_node < 4; ++d) {
    options.node_of_device.push_back(d / per_node);
  }
  options.collectives = below(4) > 0;
  const auto algorithms = CollectiveAlgorithms();
  const auto pick = static_cast<size_t>(below(static_cast<int>(algorithms.size()) * 2));
  if (pick < algorithms.size()) options.algorithm = AlwaysBy(std::string(algorithms[pick].name));
  options.fuse = below(4) > 0;
  if (below(2) == 0) options.direct_bytes = int64_t{1} << below(12);
  return options;
}

void StrategyCoverage::Add(const Graph& graph, const Strategy& strategy, int devices) {
  const Features features(graph, strategy, devices);
  ++pairs;
  for (const std::string& feature : features.features()) ++pairs_with[feature];
  features.CountSplits(splits);
}

double StrategyCoverage::Share(const std::string& feature) const {
  const auto it = pairs_with.find(feature);
  return it == pairs_with.end() || pairs == 0 ? 0 : static_cast<double>(it->second) / pairs;
}

std::string StrategyCoverage::ToString() const {
  std::string text = absl::StrCat(pairs, " pairs\n");
  for (const auto& [feature, count] : pairs_with) {
    absl::StrAppendFormat(&text, "  %-36s %5.1f %%\n", feature, 100 * Share(feature));
  }
  text += "splits:";
  for (const auto& [loop, count] : splits) absl::StrAppend(&text, " ", loop, "=", count);
  return text + "\n";
}

}  // namespace partita
