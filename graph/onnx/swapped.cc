#include "graph/onnx/swapped.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace partita::onnx {
std::vector<int64_t> FirstTwoSwapped(size_t rank) {
  std::vector<int64_t> perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  if (rank >= 2) std::swap(perm[0], perm[1]);
  return perm;
}

const Operator* ProducerOf(const GraphBuilder& builder, TensorId x) {
  for (size_t k = builder.ops().size(); k-- > 0;) {
    const Operator& op = builder.ops()[k];
    if (std::ranges::find(op.outputs, x) != op.outputs.end()) return &op;
  }
  return nullptr;
}

TensorId SwappedFrom(const GraphBuilder& builder, TensorId x) {
  const Shape shape = builder.tensor(x).type.shape;
  for (const Operator* op = ProducerOf(builder, x); op != nullptr;
       op = ProducerOf(builder, op->inputs[0])) {
    if (std::holds_alternative<Reshape>(op->attrs)) continue;
    const auto* transpose = std::get_if<Transpose>(&op->attrs);
    const bool swaps = transpose != nullptr && shape.size() >= 2 &&
                       transpose->perm == FirstTwoSwapped(shape.size()) &&
                       builder.tensor(op->outputs[0]).type.shape == shape;
    return swaps ? op->inputs[0] : kNoTensor;
  }
  return kNoTensor;
}

absl::StatusOr<TensorId> AddSwapped(NodeImport& node, TensorId x, const std::string& suffix) {
  const TensorId from = SwappedFrom(node.builder(), x);
  if (from != kNoTensor) return from;
  return node.Add(Transpose{.perm = FirstTwoSwapped(node.ShapeOf(x).size())}, {x}, suffix);
}

}  // namespace partita::onnx
