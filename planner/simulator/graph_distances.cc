#include "planner/simulator/graph_distances.h"

#include <algorithm>

namespace partita {

GraphDistances::GraphDistances(const Graph& graph)
    : subjects_(static_cast<int32_t>(graph.ops().size() + graph.tensors().size())),
      inputs_(graph.ops().size()),
      outputs_(graph.ops().size()),
      is_for_updates_(static_cast<size_t>(subjects_), false) {
  for (const Operator& op : graph.ops()) {
    for (TensorId input : op.inputs) inputs_[op.id.index()].push_back(SubjectOf(input));
    for (TensorId output : op.outputs) outputs_[op.id.index()].push_back(SubjectOf(output));
  }
  for (const Tensor& tensor : graph.tensors()) {
    const auto& readers = graph.consumers(tensor.id);
    const bool is_made = tensor.kind == TensorKind::kActivation && !readers.empty();
    is_for_updates_[static_cast<size_t>(SubjectOf(tensor.id))] =
        is_made && std::all_of(readers.begin(), readers.end(),
                               [&](OpId op) { return graph.op(op).anchor == kNoOp; });
  }
}

// Operators are in topological order, so all that reads what an operator makes comes behind it.
std::vector<int64_t> GraphDistances::Behind(std::span<const int64_t> lengths) const {
  std::vector<int64_t> behind(static_cast<size_t>(subjects_), 0);
  const auto through = [&](size_t subject) { return behind[subject] + lengths[subject]; };
  for (size_t op = inputs_.size(); op-- > 0;) {
    for (int32_t output : outputs_[op]) {
      behind[op] = std::max(behind[op], through(static_cast<size_t>(output)));
    }
    for (int32_t input : inputs_[op]) {
      int64_t& of_input = behind[static_cast<size_t>(input)];
      of_input = std::max(of_input, through(op));
    }
  }
  return behind;
}

}  // namespace partita
