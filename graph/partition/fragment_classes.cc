#include "graph/partition/fragment_classes.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "graph/parallel/parts.h"
#include "graph/parallel/weight_layouts.h"
#include "graph/partition/fragment.h"
#include "graph/task/kernel_signature.h"

namespace partita {
namespace {

// Numbers for different things, in the order in which they come.
template <class Thing>
class Numbers {
 public:
  int32_t Of(Thing thing) {
    return numbers_.try_emplace(std::move(thing), static_cast<int32_t>(numbers_.size()))
        .first->second;
  }

 private:
  absl::flat_hash_map<Thing, int32_t> numbers_;
};

using Facts = std::vector<int64_t>;

template <class... Values>
void Append(Facts& facts, Values... values) {
  (facts.push_back(static_cast<int64_t>(values)), ...);
}

// Appends a list, which ends with its length.
template <class List, class NumberOf>
void AppendList(const List& list, NumberOf&& number_of, Facts& facts) {
  for (const auto& entry : list) facts.push_back(static_cast<int64_t>(number_of(entry)));
  facts.push_back(static_cast<int64_t>(std::size(list)));
}

// The place of each entry's first equal.
std::vector<size_t> PlacesOfFirst(const std::vector<TensorId>& list) {
  std::vector<size_t> places;
  for (TensorId id : list) {
    places.push_back(static_cast<size_t>(std::find(list.begin(), list.end(), id) - list.begin()));
  }
  return places;
}

class ClassFinder {
 public:
  ClassFinder(const Graph& graph, const PartitionOptions& options,
              const FragmentDecisions& decisions)
      : graph_(graph),
        options_(options),
        decisions_(decisions),
        host_(HostTensors(graph, options)),
        updates_(UpdatesOfWeights(graph)) {
    for (const Operator& op : graph.ops()) kind_of_op_.push_back(KindOf(op));
  }

  FragmentClasses Run() {
    FragmentClasses classes;
    const auto followers = FollowersOf(graph_);
    classes.of_anchor.assign(graph_.ops().size(), -1);
    Numbers<Facts> anchors, weights, laid_out, tensors;
    for (OpId anchor : graph_.anchors()) {
      const std::vector<OpId>& own = followers[anchor.index()];
      Facts facts = {std::find(own.begin(), own.end(), anchor) - own.begin()};
      AppendList(own, [this](OpId op) { return KindOf(op); }, facts);
      classes.of_anchor[anchor.index()] = anchors.Of(std::move(facts));
    }
    for (size_t w = 0; w < graph_.weights().size(); ++w) {
      classes.of_weight.push_back(weights.Of(FactsOfWeight(w)));
      classes.of_laid_out.push_back(laid_out.Of(FactsOfLaidOut(w)));
    }
    for (const Tensor& tensor : graph_.tensors()) {
      classes.of_tensor.push_back(tensors.Of(FactsOf(tensor)));
    }
    return classes;
  }

 private:
  int32_t KindOf(OpId op) const { return kind_of_op_[op.index()]; }

  KernelSignature KernelOf(const Operator& op) const {
    KernelSignature kernel{.attrs = op.attrs, .pass = op.pass};
    const auto add = [&](const std::vector<TensorId>& from, std::vector<KernelTensor>& to) {
      for (TensorId id : from) {
        const Tensor& tensor = graph_.tensor(id);
        to.push_back({{ElementTypeOf(options_, op, tensor), tensor.type.shape}});
      }
    };
    add(op.inputs, kernel.inputs);
    add(op.outputs, kernel.outputs);
    return kernel;
  }

  // The kind of a tensor, and of the one whose next value it is.
  int64_t KindOf(TensorId id) const {
    const Tensor& tensor = graph_.tensor(id);
    const auto own = static_cast<int64_t>(tensor.kind);
    if (tensor.kind != TensorKind::kNext) return own << 8;
    return (own << 8) + static_cast<int64_t>(graph_.tensor(tensor.of).kind) + 1;
  }

  // Operators of one kind make equal parts and kernels of equal configurations, or layouts.
  int32_t KindOf(const Operator& op) {
    Facts facts;
    Append(facts, kernels_.Of(KernelOf(op)), kernels_.Of(KernelOf(graph_.op(op.forward))),
           op.microbatch, op.anchor == kNoOp);
    for (const auto* list : {&op.inputs, &op.outputs}) {
      AppendList(*list, [this](TensorId id) { return KindOf(id); }, facts);
      AppendList(*list, [this](TensorId id) { return types_.Of(graph_.tensor(id).type); }, facts);
      AppendList(PlacesOfFirst(*list), [](size_t place) { return place; }, facts);
    }
    AppendList(op.after, [](OpId before) { return before.value(); }, facts);
    return kinds_.Of(std::move(facts));
  }

  // Operators that make or read a tensor, which decisions of a list theirs are, and which of their
  // results or operands it is.
  void AppendUsers(std::span<const OpId> ops, TensorId id, const std::vector<int32_t>& decisions,
                   Facts& facts) const {
    AppendList(
        ops,
        [&](OpId op) {
          const int32_t decision = decisions_.of_op[op.index()];
          Append(facts, KindOf(op),
                 std::find(decisions.begin(), decisions.end(), decision) - decisions.begin());
          for (const auto* list : {&graph_.op(op).inputs, &graph_.op(op).outputs}) {
            AppendList(*list, [id](TensorId one) { return one == id; }, facts);
          }
          return graph_.op(op).anchor == kNoOp;
        },
        facts);
  }

  void AppendTensor(TensorId id, const std::vector<int32_t>& decisions, Facts& facts) {
    Append(facts, KindOf(id), types_.Of(graph_.tensor(id).type));
    AppendUsers(graph_.producers(id), id, decisions, facts);
    AppendUsers(graph_.consumers(id), id, decisions, facts);
  }

  // The weight, what its updates read besides, and what they make.
  Facts FactsOfWeight(size_t weight) {
    const TensorId id = graph_.weights()[weight].tensor;
    const std::vector<int32_t>& decisions = decisions_.of_layout[weight];
    Facts facts;
    Append(facts, decisions.size());
    AppendTensor(id, decisions, facts);
    std::vector<TensorId> met = {id};
    for (OpId op : updates_[weight]) {
      facts.push_back(KindOf(op));
      for (const auto* list : {&graph_.op(op).inputs, &graph_.op(op).outputs}) {
        for (TensorId other : *list) AppendOnce(other, decisions, met, facts);
      }
    }
    return facts;
  }

  // The weight itself, and its updates by what they read and make.
  Facts FactsOfLaidOut(size_t weight) {
    std::vector<TensorId> met = {graph_.weights()[weight].tensor};
    Facts facts = {types_.Of(graph_.tensor(met[0]).type)};
    for (OpId op : updates_[weight]) {
      facts.push_back(KindOf(op));
      for (const auto* list : {&graph_.op(op).inputs, &graph_.op(op).outputs}) {
        for (TensorId id : *list) AppendAlone(id, met, facts);
      }
    }
    return facts;
  }

  // Appends a tensor, or the place where it was met first, and that of the one whose next value it is.
  void AppendAlone(TensorId id, std::vector<TensorId>& met, Facts& facts) {
    const auto at = std::find(met.begin(), met.end(), id);
    Append(facts, at - met.begin());
    if (at != met.end()) return;
    met.push_back(id);
    const Tensor& tensor = graph_.tensor(id);
    Append(facts, KindOf(id), types_.Of(tensor.type));
    if (tensor.of != kNoTensor) AppendAlone(tensor.of, met, facts);
  }

  // Appends a tensor, or the place where it was met first.
  void AppendOnce(TensorId id, const std::vector<int32_t>& decisions, std::vector<TensorId>& met,
                  Facts& facts) {
    const auto at = std::find(met.begin(), met.end(), id);
    Append(facts, at - met.begin());
    if (at != met.end()) return;
    met.push_back(id);
    AppendTensor(id, decisions, facts);
    const Tensor& tensor = graph_.tensor(id);
    if (tensor.of != kNoTensor) AppendOnce(tensor.of, decisions, met, facts);
  }

  Facts FactsOf(const Tensor& tensor) {
    const std::vector<int32_t>& decisions = decisions_.of_tensor[tensor.id.index()];
    Facts facts;
    const bool is_host = std::find(host_.begin(), host_.end(), tensor.id) != host_.end();
    Append(facts, is_host ? tensor.id.value() : -1, decisions.size());
    AppendTensor(tensor.id, decisions, facts);
    return facts;
  }

  const Graph& graph_;
  const PartitionOptions& options_;
  const FragmentDecisions& decisions_;
  const std::vector<TensorId> host_;
  const std::vector<std::vector<OpId>> updates_;  // indexed by weight
  Numbers<KernelSignature> kernels_;
  Numbers<TensorType> types_;
  Numbers<Facts> kinds_;
  std::vector<int32_t> kind_of_op_;  // indexed by OpId
};

void SortUnique(std::vector<int32_t>& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

std::vector<int32_t> FirstNumbers(size_t count) {
  std::vector<int32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

}  // namespace

// What a tensor belongs to comes before it.
std::vector<int32_t> WeightOfTensors(const Graph& graph) {
  std::vector<int32_t> weight_of(graph.tensors().size(), -1);
  for (size_t w = 0; w < graph.weights().size(); ++w) {
    weight_of[graph.weights()[w].tensor.index()] = static_cast<int32_t>(w);
  }
  const auto of = [&](const Tensor& tensor) { return weight_of[tensor.of.index()]; };
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.kind == TensorKind::kState) weight_of[tensor.id.index()] = of(tensor);
  }
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.kind == TensorKind::kNext) weight_of[tensor.id.index()] = of(tensor);
  }
  return weight_of;
}

std::vector<std::vector<OpId>> UpdatesOfWeights(const Graph& graph) {
  const std::vector<int32_t> weight_of = WeightOfTensors(graph);
  std::vector<std::vector<OpId>> updates(graph.weights().size());
  for (const Operator& op : graph.ops()) {
    if (op.anchor_weight == kNoTensor) continue;
    updates[static_cast<size_t>(weight_of[op.anchor_weight.index()])].push_back(op.id);
  }
  return updates;
}

FragmentDecisions FindFragmentDecisions(const Graph& graph) {
  FragmentDecisions decisions;
  const auto anchors = graph.anchors();
  std::vector<int32_t> of_anchor(graph.ops().size(), -1);
  for (size_t a = 0; a < anchors.size(); ++a) {
    of_anchor[anchors[a].index()] = static_cast<int32_t>(a);
  }
  const std::vector<int32_t> weight_of = WeightOfTensors(graph);
  const auto of_weight = [&](TensorId id) {
    return static_cast<int32_t>(anchors.size()) + weight_of[id.index()];
  };
  for (const Operator& op : graph.ops()) {
    decisions.of_op.push_back(op.anchor != kNoOp ? of_anchor[op.anchor.index()]
                                                 : of_weight(op.anchor_weight));
  }
  for (size_t w = 0; w < graph.weights().size(); ++w) {
    auto& depends = decisions.of_layout.emplace_back();
    for (OpId op : DecidingOperators(graph, w)) depends.push_back(decisions.of_op[op.index()]);
    SortUnique(depends);
  }
  for (const Tensor& tensor : graph.tensors()) {
    auto& depends = decisions.of_tensor.emplace_back();
    for (const auto& ops : {graph.producers(tensor.id), graph.consumers(tensor.id)}) {
      for (OpId op : ops) depends.push_back(decisions.of_op[op.index()]);
    }
    if (weight_of[tensor.id.index()] >= 0) depends.push_back(of_weight(tensor.id));
    SortUnique(depends);
  }
  return decisions;
}

FragmentClasses FindFragmentClasses(const Graph& graph, const PartitionOptions& options,
                                    const FragmentDecisions& decisions) {
  return ClassFinder(graph, options, decisions).Run();
}

FragmentClasses DistinctFragmentClasses(const Graph& graph) {
  const size_t weights = graph.weights().size();
  return {FirstNumbers(graph.ops().size()), FirstNumbers(weights), FirstNumbers(weights),
          FirstNumbers(graph.tensors().size())};
}

}  // namespace partita
