#include "planner/lower_bound.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "graph/partition/fragment_cache.h"
#include "graph/partition/fragment_linker.h"
#include "planner/space/like_operators.h"
#include "planner/space/search_space.h"

namespace partita {
namespace {

constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
// Of one kernel, as LeastLoads: an evaluation bounds longer ones.
constexpr int64_t kMostNanos = int64_t{1} << 40;
// Tensors of a kernel, each of which may have two formats.
constexpr size_t kMostFormats = 6;

// How a kernel may be joined with others.
enum class Joined : uint8_t {
  kNot,
  kTakesEpilogue,  // its reader may be done by it
  kIsEpilogue,     // it may be done by what makes its operand
  kBeforeUpdate,   // the gradient of a weight, which the update may do first
  kWithOthers,     // otherwise
};

// An operator's part in fusion, and the operator that it is joined with, of the first two kinds.
struct Fate {
  Joined joined = Joined::kNot;
  OpId other = kNoOp;
};

std::vector<Fate> FatesOf(const Graph& graph, const PartitionOptions& options) {
  std::vector<Fate> fates(graph.ops().size());
  const FragmentCache cache(graph, options, Bytes(0));
  for (const FragmentLinker::MayFuse& pair : FragmentLinker(cache).may_fuse()) {
    Fate &producer = fates[pair.producer.index()], &reader = fates[pair.reader.index()];
    const Operator& op = graph.op(pair.reader);
    Fate first{Joined::kWithOthers, kNoOp}, second = first;
    if (op.pass.is_forward() && IsEpilogue(op.attrs)) {
      first = {Joined::kTakesEpilogue, pair.reader};
      second = {Joined::kIsEpilogue, pair.producer};
    } else if (TakesGradient(op.attrs)) {
      first = {Joined::kBeforeUpdate, pair.reader};
    }
    // What is joined in several ways is bounded by nothing.
    producer = producer.joined == Joined::kNot ? first : Fate{Joined::kWithOthers, kNoOp};
    reader = reader.joined == Joined::kNot ? second : Fate{Joined::kWithOthers, kNoOp};
  }
  return fates;
}

// Least prices of kernels over the devices.
class LeastPrices {
 public:
  LeastPrices(const Evaluator& evaluator, const PartitionOptions& options)
      : model_(evaluator.model()), options_(options) {}

  int64_t Of(const KernelSignature& signature) {
    const auto [it, added] = known_.try_emplace(signature, kMostNanos);
    if (!added) return it->second;
    return known_[signature] = LeastOfFormats(signature);
  }

 private:
  // Whatever formats the tensors get.
  int64_t LeastOfFormats(KernelSignature signature) const {
    if (!options_.native_formats) return LeastOfDevices(signature);
    std::vector<KernelTensor*> tensors;
    for (auto* list : {&signature.inputs, &signature.outputs}) {
      for (KernelTensor& tensor : *list) {
        if (tensor.present) tensors.push_back(&tensor);
      }
    }
    if (tensors.size() > kMostFormats) return 0;
    int64_t least = kMostNanos;
    for (uint32_t native = 0; native < 1U << tensors.size(); ++native) {
      for (size_t k = 0; k < tensors.size(); ++k) {
        tensors[k]->format = (native >> k & 1) != 0 ? Format::kNative : Format::kDense;
      }
      least = std::min(least, LeastOfDevices(signature));
    }
    return least;
  }

  int64_t LeastOfDevices(const KernelSignature& signature) const {
    int64_t least = kMostNanos;
    const auto& precisions = options_.precision_of_device;
    KernelSignature there = signature;
    for (int d = 0; d < options_.devices; ++d) {
      const auto device = static_cast<size_t>(d);
      if (!precisions.empty() && (d == 0 || precisions[device] != precisions[device - 1])) {
        there = InPrecision(signature, precisions[device]);
      }
      const auto cost = model_.KernelCost(there, DeviceId(d));
      if (!cost.has_value()) return 0;
      least = std::min({least, cost->time.value(), cost->Uncontended().value()});
    }
    return least;
  }

  const CostModel& model_;
  const PartitionOptions& options_;
  absl::flat_hash_map<KernelSignature, int64_t> known_;
};

// What is known of an anchor and its followers over all splits.
struct Least {
  int64_t work = kNone;
  // By follower: the least time of a part by the inputs of which it reads anything, as bits.
  std::vector<std::map<uint64_t, int64_t>> parts;
};

// Calls visit(degrees) for splits of one or two loops by divisors of `devices`, into up to 2 x
// devices parts.
template <class Visit>
void ForEachEvenSplit(const ShardingRule& rule, int32_t devices, std::vector<int32_t>& degrees,
                      Visit& visit) {
  const auto fits = [&](size_t loop, int32_t degree) {
    return devices % degree == 0 && rule.loops[loop].splittable &&
           rule.loops[loop].extent >= degree;
  };
  for (size_t a = 0; a < rule.loops.size(); ++a) {
    for (int32_t by = 2; by <= devices; ++by) {
      if (!fits(a, by)) continue;
      degrees[a] = by;
      visit(degrees);
      for (size_t b = a + 1; b < rule.loops.size(); ++b) {
        for (int32_t also = 2; also * by <= 2 * devices; ++also) {
          if (!fits(b, also)) continue;
          degrees[b] = also;
          visit(degrees);
        }
        degrees[b] = 1;
      }
    }
    degrees[a] = 1;
  }
}

class Bounder {
 public:
  Bounder(const Evaluator& evaluator, const std::function<bool()>& interrupted)
      : interrupted_(interrupted),
        graph_(evaluator.graph()),
        options_(evaluator.partition_options()),
        fates_(FatesOf(graph_, options_)),
        followers_(FollowersOf(graph_)),
        prices_(evaluator, options_),
        most_parts_(2 * options_.devices <= kMostParts ? 2 * options_.devices : kFewParts) {}

  LowerBound Run(int at_once) {
    LowerBound bound;
    bound.is_complete = most_parts_ == 2 * options_.devices;
    const std::vector<int32_t> classes = LikeClasses(graph_);
    class_of_.assign(graph_.ops().size(), -1);
    for (size_t a = 0; a < classes.size(); ++a) {
      class_of_[graph_.anchors()[a].index()] = classes[a];
    }
    int64_t work = 0;
    std::vector<const Least*> least(graph_.ops().size(), nullptr);
    for (OpId anchor : graph_.anchors()) {
      least[anchor.index()] = &LeastOf(anchor);
      if (given_up_) return {};
      work += least[anchor.index()]->work;
    }
    bound.work = Nanos(work / at_once);
    bound.path = Nanos(LongestPath(least));
    return bound;
  }

 private:
  using Key = std::vector<int32_t>;

  // Anchors of equal keys have equal bounds.
  Key KeyOf(OpId anchor) {
    Key key{class_of_[anchor.index()]};
    for (OpId id : followers_[anchor.index()]) {
      const Fate& fate = fates_[id.index()];
      key.push_back(static_cast<int32_t>(fate.joined));
      if (fate.joined == Joined::kTakesEpilogue) {
        key.push_back(class_of_[graph_.op(fate.other).anchor.index()]);
      }
      if (fate.joined == Joined::kBeforeUpdate) key.push_back(UpdateKey(fate.other));
    }
    return key;
  }

  // The first update met with equal attributes and shapes, of which there are few.
  int32_t UpdateKey(OpId id) {
    const Operator& op = graph_.op(id);
    for (OpId first : updates_) {
      const Operator& other = graph_.op(first);
      if (other.attrs == op.attrs && graph_.InputShapes(other) == graph_.InputShapes(op)) {
        return first.value();
      }
    }
    updates_.push_back(id);
    return id.value();
  }

  const Least& LeastOf(OpId anchor) {
    const auto [it, added] = known_.try_emplace(KeyOf(anchor));
    if (!added) return it->second;
    Least& least = it->second;
    least.parts.resize(followers_[anchor.index()].size());
    const ShardingRule& rule = graph_.rule(anchor);
    auto visit = [&](const std::vector<int32_t>& degrees) { AddSplit(anchor, degrees, least); };
    std::vector<int32_t> degrees(rule.loops.size(), 1);
    ForEachDegrees(rule, most_parts_, degrees, visit);
    if (most_parts_ < 2 * options_.devices) {
      ForEachEvenSplit(rule, options_.devices, degrees, visit);
    }
    return least;
  }

  // Splits that do not fit make no step.
  void AddSplit(OpId anchor, const std::vector<int32_t>& degrees, Least& least) {
    given_up_ = given_up_ || (interrupted_ && interrupted_());
    if (given_up_) return;
    ParallelConfig config{degrees, 1, {}};
    config.devices.assign(static_cast<size_t>(PartCount(config)), DeviceId(0));
    const auto& followers = followers_[anchor.index()];
    std::vector<std::vector<Part>> parts;
    for (OpId id : followers) {
      auto made = PartsOf(graph_, graph_.op(id), config);
      if (!made.ok()) return;
      parts.push_back(*std::move(made));
    }
    int64_t work = 0;
    for (size_t f = 0; f < followers.size(); ++f) {
      work += AddParts(graph_.op(followers[f]), parts[f], least.parts[f]);
    }
    least.work = std::min(least.work, work);
  }

  // Returns what the parts take in sum.
  int64_t AddParts(const Operator& op, const std::vector<Part>& parts,
                   std::map<uint64_t, int64_t>& least) {
    const OperatorFragment fragment = MakeOperatorFragment(graph_, op, parts, nullptr, options_);
    int64_t work = 0;
    for (size_t p = 0; p < parts.size(); ++p) {
      const auto& task = std::get<ComputeTask>(fragment.graph.tasks()[p].body);
      const auto& plain = fragment.graph.signatures()[static_cast<size_t>(task.signature)];
      const int64_t time = LeastOfKernel(op, plain, parts[p]);
      uint64_t reads = 0;
      for (size_t k = 0; k < op.inputs.size() && k < 64; ++k) {
        const TensorView& view = parts[p].view.operands[k];
        if (view.present && !view.box.empty()) reads |= uint64_t{1} << k;
      }
      const auto it = least.try_emplace(reads, time).first;
      it->second = std::min(it->second, time);
      work += time;
    }
    return work;
  }

  int64_t LeastOfKernel(const Operator& op, const KernelSignature& plain, const Part& part) {
    const Fate& fate = fates_[op.id.index()];
    switch (fate.joined) {
      case Joined::kNot:
        return prices_.Of(plain);
      case Joined::kTakesEpilogue:
        return std::min(prices_.Of(plain),
                        prices_.Of(WithEpilogue(plain, graph_.op(fate.other).attrs)));
      case Joined::kBeforeUpdate:
        return std::min(prices_.Of(plain), WithUpdate(graph_.op(fate.other), plain, part));
      case Joined::kIsEpilogue:
      case Joined::kWithOthers:
        return 0;
    }
    return 0;
  }

  // Of a gradient's kernel with the update of the region that it makes.
  int64_t WithUpdate(const Operator& update, const KernelSignature& gradient, const Part& part) {
    const PlacedBox region{part.view.results[0].box, DeviceId(0)};
    const WeightLayouts layouts{{region}, {region}, std::nullopt};
    const auto parts = UpdateParts(graph_, update, layouts.update);
    if (!parts.ok() || parts->empty()) return 0;
    const OperatorFragment fragment =
        MakeOperatorFragment(graph_, update, *parts, &layouts, options_);
    return prices_.Of(FusedUpdate(gradient, fragment.graph.signatures()[0]));
  }

  // Whether the operator makes every element of an output.
  bool MakesAllOf(const Operator& op, size_t output) const {
    const Tensor& tensor = graph_.tensor(op.outputs[output]);
    const PartView whole =
        ViewWhole(graph_.rule(op.id), graph_.InputShapes(op), graph_.OutputShapes(op));
    const TensorView& view = whole.results[output];
    return view.present && view.box == Box::Full(tensor.type.shape);
  }

  int64_t LongestPath(const std::vector<const Least*>& least) const {
    std::vector<int64_t> available(graph_.tensors().size(), 0);
    std::vector<size_t> place(graph_.ops().size(), 0);
    for (OpId anchor : graph_.anchors()) {
      const auto& followers = followers_[anchor.index()];
      for (size_t f = 0; f < followers.size(); ++f) place[followers[f].index()] = f;
    }
    int64_t longest = 0;
    for (const Operator& op : graph_.ops()) {
      if (op.anchor == kNoOp) continue;
      int64_t end = kNone;
      for (const auto& [reads, time] : least[op.anchor.index()]->parts[place[op.id.index()]]) {
        int64_t ready = 0;
        for (size_t k = 0; k < op.inputs.size() && k < 64; ++k) {
          if ((reads >> k & 1) != 0) ready = std::max(ready, available[op.inputs[k].index()]);
        }
        end = std::min(end, ready + time);
      }
      if (end == kNone) continue;
      longest = std::max(longest, end);
      for (size_t k = 0; k < op.outputs.size(); ++k) {
        int64_t& from = available[op.outputs[k].index()];
        if (MakesAllOf(op, k)) from = std::max(from, end);
      }
    }
    return longest;
  }

  const std::function<bool()>& interrupted_;
  bool given_up_ = false;
  const Graph& graph_;
  const PartitionOptions options_;
  const std::vector<Fate> fates_;                   // indexed by OpId
  const std::vector<std::vector<OpId>> followers_;  // indexed by OpId
  LeastPrices prices_;
  const int64_t most_parts_;
  std::vector<int32_t> class_of_;  // indexed by OpId of an anchor
  std::map<Key, Least> known_;
  std::vector<OpId> updates_;  // met so far, one of a kind
};

// The most devices that can compute at once: those that share processors take turns.
int DevicesAtOnce(const SimulatedResources& resources) {
  std::set<int32_t> sets;
  int alone = 0;
  for (int d = 0; d < resources.devices(); ++d) {
    const auto shared = resources.CoreSets(DeviceId(d));
    if (shared.empty()) {
      ++alone;
    } else {
      sets.insert(shared[0]);
    }
  }
  return alone + static_cast<int>(sets.size());
}

}  // namespace

LowerBound LowerBoundOf(const Evaluator& evaluator, const std::function<bool()>& interrupted) {
  return Bounder(evaluator, interrupted).Run(DevicesAtOnce(evaluator.resources()));
}

double GapOf(Nanos time, Nanos bound) {
  if (time <= bound) return 0;
  return static_cast<double>((time - bound).value()) / static_cast<double>(time.value());
}

}  // namespace partita
