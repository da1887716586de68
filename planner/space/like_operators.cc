#include "planner/space/like_operators.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "graph/parallel/parts.h"

namespace partita {
namespace {

bool AreLikeTensors(const Graph& graph, const std::vector<TensorId>& a,
                    const std::vector<TensorId>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](TensorId x, TensorId y) {
    const Tensor &one = graph.tensor(x), &other = graph.tensor(y);
    return one.kind == other.kind && one.type == other.type;
  });
}

bool AreLikeOps(const Graph& graph, OpId a, OpId b) {
  const Operator &one = graph.op(a), &other = graph.op(b);
  return one.attrs == other.attrs && one.pass == other.pass &&
         AreLikeTensors(graph, one.inputs, other.inputs) &&
         AreLikeTensors(graph, one.outputs, other.outputs);
}

}  // namespace

std::vector<int32_t> LikeClasses(const Graph& graph) {
  const std::vector<std::vector<OpId>> followers = FollowersOf(graph);
  // Operators of equal kind, result and number of followers, of which few are different.
  absl::flat_hash_map<std::tuple<size_t, size_t, Shape>, std::vector<std::pair<OpId, int32_t>>>
      firsts;
  std::vector<int32_t> classes;
  int32_t next = 0;
  for (OpId anchor : graph.anchors()) {
    const Operator& op = graph.op(anchor);
    const auto& own = followers[anchor.index()];
    auto& candidates =
        firsts[{op.attrs.index(), own.size(), graph.tensor(op.outputs[0]).type.shape}];
    const auto found = std::find_if(candidates.begin(), candidates.end(), [&](const auto& first) {
      const auto& others = followers[first.first.index()];
      return std::equal(own.begin(), own.end(), others.begin(), others.end(),
                        [&](OpId a, OpId b) { return AreLikeOps(graph, a, b); });
    });
    if (found != candidates.end()) {
      classes.push_back(found->second);
      continue;
    }
    candidates.emplace_back(anchor, next);
    classes.push_back(next++);
  }
  return classes;
}

std::vector<int32_t> ShapeClasses(const Graph& graph) {
  using Kinds = std::vector<std::pair<TensorKind, TensorType>>;
  absl::flat_hash_map<std::tuple<size_t, Kinds, Kinds>, int32_t> numbers;
  const auto kinds_of = [&](const std::vector<TensorId>& tensors) {
    Kinds kinds;
    for (TensorId id : tensors) kinds.emplace_back(graph.tensor(id).kind, graph.tensor(id).type);
    return kinds;
  };
  std::vector<int32_t> classes;
  for (OpId anchor : graph.anchors()) {
    const Operator& op = graph.op(anchor);
    const auto next = static_cast<int32_t>(numbers.size());
    classes.push_back(
        numbers.try_emplace({op.attrs.index(), kinds_of(op.inputs), kinds_of(op.outputs)}, next)
            .first->second);
  }
  return classes;
}

std::vector<int32_t> ByOperator(const Graph& graph, const std::vector<int32_t>& classes) {
  std::vector<int32_t> class_of(graph.ops().size(), -1);
  for (size_t a = 0; a < classes.size(); ++a) class_of[graph.anchors()[a].index()] = classes[a];
  return class_of;
}

}  // namespace partita
