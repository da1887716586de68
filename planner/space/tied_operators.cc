#include "planner/space/tied_operators.h"

#include <optional>

#include "graph/support/disjoint_sets.h"

namespace partita {
namespace {

// Joins anchors that read a weight together, and marks them.
std::vector<bool> JoinReaders(const Graph& graph, DisjointSets& sets) {
  std::vector<bool> is_tied(graph.ops().size(), false);
  for (const Weight& weight : graph.weights()) {
    OpId first = kNoOp;
    for (OpId id : graph.consumers(weight.tensor)) {
      if (graph.op(id).anchor != id) continue;
      if (first != kNoOp) {
        sets.Join(first.index(), id.index());
        is_tied[first.index()] = is_tied[id.index()] = true;
      }
      first = id;
    }
  }
  return is_tied;
}

bool ReadsWeights(const Graph& graph, OpId op) {
  for (TensorId input : graph.op(op).inputs) {
    if (graph.tensor(input).kind == TensorKind::kWeight) return true;
  }
  return false;
}

// The root of the set that the tied makers of what an operator reads are in; nullopt where there are
// none, or several.
std::optional<size_t> SetOfMakers(const Graph& graph, OpId op, const std::vector<bool>& is_tied,
                                  DisjointSets& sets) {
  std::optional<size_t> root;
  for (TensorId input : graph.op(op).inputs) {
    for (OpId producer : graph.producers(input)) {
      const OpId maker = graph.op(producer).anchor;
      if (maker == kNoOp || !is_tied[maker.index()]) continue;
      const size_t own = sets.RootOf(maker.index());
      if (root.has_value() && *root != own) return std::nullopt;
      root = own;
    }
  }
  return root;
}

}  // namespace

std::vector<int32_t> TiedSets(const Graph& graph) {
  DisjointSets sets(graph.ops().size());
  std::vector<bool> is_tied = JoinReaders(graph, sets);
  for (OpId id : graph.anchors()) {
    if (ReadsWeights(graph, id)) continue;
    const std::optional<size_t> root = SetOfMakers(graph, id, is_tied, sets);
    if (!root.has_value()) continue;
    sets.Join(*root, id.index());
    is_tied[id.index()] = true;
  }
  std::vector<int32_t> number_of_root(graph.ops().size(), -1), set_of(graph.ops().size(), -1);
  int32_t next = 0;
  for (OpId id : graph.anchors()) {
    if (!is_tied[id.index()]) continue;
    int32_t& number = number_of_root[sets.RootOf(id.index())];
    if (number < 0) number = next++;
    set_of[id.index()] = number;
  }
  return set_of;
}

}  // namespace partita
