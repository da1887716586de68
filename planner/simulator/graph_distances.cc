#include "planner/simulator/graph_distances.h"

#include <algorithm>

namespace partita {

// Operators are in topological order, so all that reads what an operator makes comes behind it.
GraphDistances::GraphDistances(const Graph& graph)
    : operators_(static_cast<int32_t>(graph.ops().size())),
      hops_(graph.ops().size() + graph.tensors().size(), 0) {
  const auto at = [this](int32_t subject) -> int32_t& {
    return hops_[static_cast<size_t>(subject)];
  };
  for (size_t k = graph.ops().size(); k-- > 0;) {
    const Operator& op = graph.ops()[k];
    int32_t& own = at(SubjectOf(op.id));
    for (TensorId output : op.outputs) own = std::max(own, at(SubjectOf(output)) + 1);
    for (TensorId input : op.inputs) {
      int32_t& read = at(SubjectOf(input));
      read = std::max(read, own + 1);
    }
  }
}

}  // namespace partita
