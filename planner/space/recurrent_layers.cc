#include "planner/space/recurrent_layers.h"

#include <algorithm>
#include <map>

#include "graph/support/disjoint_sets.h"

namespace partita {
namespace {

bool IsAnchor(const Graph& graph, OpId id) { return graph.op(id).anchor == id; }

// Calls visit(producer) for the anchors that make an operator's operands.
template <class Visit>
void ForEachProducer(const Graph& graph, const Operator& op, Visit&& visit) {
  for (TensorId input : op.inputs) {
    for (OpId producer : graph.producers(input)) visit(graph.op(producer).anchor);
  }
}

// Marks the operators that share a weight with another one, and joins those that do.
std::vector<bool> JoinTied(const Graph& graph, DisjointSets& sets) {
  std::vector<bool> tied(graph.ops().size(), false);
  for (const Weight& weight : graph.weights()) {
    OpId first = kNoOp;
    for (OpId id : graph.consumers(weight.tensor)) {
      if (!IsAnchor(graph, id)) continue;
      if (first == kNoOp) {
        first = id;
        continue;
      }
      sets.Join(first.index(), id.index());
      tied[first.index()] = tied[id.index()] = true;
    }
  }
  return tied;
}

}  // namespace

bool HasWeights(const Graph& graph, const Operator& op) {
  return std::any_of(op.inputs.begin(), op.inputs.end(),
                     [&](TensorId id) { return graph.tensor(id).kind == TensorKind::kWeight; });
}

std::vector<int> RecurrentLayers(const Graph& graph) {
  DisjointSets sets(graph.ops().size());
  const std::vector<bool> tied = JoinTied(graph, sets);
  for (OpId id : graph.anchors()) {
    if (HasWeights(graph, graph.op(id))) continue;
    ForEachProducer(graph, graph.op(id), [&](OpId producer) {
      if (producer != kNoOp && tied[producer.index()]) sets.Join(producer.index(), id.index());
    });
  }
  std::map<size_t, int> layer_of_root;
  for (OpId id : graph.anchors()) {
    if (!tied[id.index()]) continue;
    bool recurs = false;
    ForEachProducer(graph, graph.op(id), [&](OpId producer) {
      recurs |= producer != kNoOp && sets.RootOf(producer.index()) == sets.RootOf(id.index());
    });
    if (recurs)
      layer_of_root.emplace(sets.RootOf(id.index()), static_cast<int>(layer_of_root.size()));
  }
  if (layer_of_root.empty()) return {};
  std::vector<int> layers(graph.ops().size(), -1);
  for (OpId id : graph.anchors()) {
    const auto found = layer_of_root.find(sets.RootOf(id.index()));
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
