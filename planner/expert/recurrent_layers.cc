#include "planner/expert/recurrent_layers.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "planner/expert/splits.h"

namespace partita {
namespace {

// Sets of operators, by union-find.
class OperatorSets {
 public:
  explicit OperatorSets(size_t count) : parent_(count) {
    std::iota(parent_.begin(), parent_.end(), size_t{0});
  }
  size_t RootOf(OpId op) {
    size_t at = op.index();
    while (parent_[at] != at) at = parent_[at] = parent_[parent_[at]];
    return at;
  }
  void Join(OpId a, OpId b) {
    const size_t first = std::min(RootOf(a), RootOf(b)), second = std::max(RootOf(a), RootOf(b));
    parent_[second] = first;
  }

 private:
  std::vector<size_t> parent_;  // indexed by OpId
};

bool IsAnchor(const Graph& graph, OpId id) { return graph.op(id).anchor == id; }

// Calls visit(producer) for the anchors that make an operator's operands.
template <class Visit>
void ForEachProducer(const Graph& graph, const Operator& op, Visit&& visit) {
  for (TensorId input : op.inputs) {
    for (OpId producer : graph.producers(input)) visit(graph.op(producer).anchor);
  }
}

// Marks the operators that share a weight with another one, and joins those that do.
std::vector<bool> JoinTied(const Graph& graph, OperatorSets& sets) {
  std::vector<bool> tied(graph.ops().size(), false);
  for (const Weight& weight : graph.weights()) {
    OpId first = kNoOp;
    for (OpId id : graph.consumers(weight.tensor)) {
      if (!IsAnchor(graph, id)) continue;
      if (first == kNoOp) {
        first = id;
        continue;
      }
      sets.Join(first, id);
      tied[first.index()] = tied[id.index()] = true;
    }
  }
  return tied;
}

}  // namespace

std::vector<int> RecurrentLayers(const Graph& graph) {
  OperatorSets sets(graph.ops().size());
  const std::vector<bool> tied = JoinTied(graph, sets);
  for (OpId id : graph.anchors()) {
    if (HasWeights(graph, graph.op(id))) continue;
    ForEachProducer(graph, graph.op(id), [&](OpId producer) {
      if (producer != kNoOp && tied[producer.index()]) sets.Join(producer, id);
    });
  }
  std::map<size_t, int> layer_of_root;
  for (OpId id : graph.anchors()) {
    if (!tied[id.index()]) continue;
    bool recurs = false;
    ForEachProducer(graph, graph.op(id), [&](OpId producer) {
      recurs |= producer != kNoOp && sets.RootOf(producer) == sets.RootOf(id);
    });
    if (recurs) layer_of_root.emplace(sets.RootOf(id), static_cast<int>(layer_of_root.size()));
  }
  if (layer_of_root.empty()) return {};
  std::vector<int> layers(graph.ops().size(), -1);
  for (OpId id : graph.anchors()) {
    const auto found = layer_of_root.find(sets.RootOf(id));
    if (found != layer_of_root.end()) layers[id.index()] = found->second;
  }
  return layers;
}

std::vector<int> Depths(const Graph& graph, const std::vector<int>& recurrent) {
  std::vector<int> depths(graph.ops().size(), -1);
  std::vector<int> depth_of_layer(graph.ops().size(), -1);  // indexed by recurrent layer
  for (OpId id : graph.anchors()) {
    const Operator& op = graph.op(id);
    int before = -1;
    ForEachProducer(graph, op, [&](OpId producer) {
      if (producer != kNoOp) before = std::max(before, depths[producer.index()]);
    });
    int& depth = depths[id.index()];
    depth = HasWeights(graph, op) ? before + 1 : std::max(before, 0);
    const int layer = recurrent.empty() ? -1 : recurrent[id.index()];
    if (layer < 0) continue;
    int& shared = depth_of_layer[static_cast<size_t>(layer)];
    if (shared < 0) shared = depth;
    depth = shared;
  }
  return depths;
}

}  // namespace partita
