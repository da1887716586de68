#include "graph/training/differentiation.h"

#include "absl/strings/str_cat.h"
#include "graph/support/check.h"
#include "graph/support/status_macros.h"
#include "graph/training/backward.h"

namespace partita {

Differentiation::Differentiation(GraphBuilder& builder, int microbatches)
    : builder_(builder), microbatches_(microbatches) {}

void Differentiation::FindNeeds(std::span<const OpId> forward) {
  const size_t tensors = builder_.tensors().size();
  needs_.resize(tensors);
  readers_.assign(tensors, 0);
  gradients_.resize(tensors, kNoTensor);
  for (const Weight& weight : builder_.weights()) {
    needs_[weight.tensor.index()] = weight.trainable;
  }
  for (OpId id : forward) {
    const Operator& op = builder_.op(id);
    CHECK(op.pass.is_forward());
    if (op.anchor_weight != kNoTensor) continue;
    bool needed = false;
    for (int k : DifferentiableOperands(op)) {
      needed |= needs_[op.inputs[static_cast<size_t>(k)].index()];
    }
    for (TensorId input : op.inputs) ++readers_[input.index()];
    for (TensorId output : op.outputs) needs_[output.index()] = needs_[output.index()] || needed;
  }
}

int Differentiation::CountReaders(TensorId id) const {
  const int readers = readers_[id.index()];
  return builder_.tensor(id).kind == TensorKind::kWeight ? readers * microbatches_ : readers;
}

std::vector<int> Differentiation::DifferentiableOperands(const Operator& op) const {
  const auto pieces = GradientPiecesOf(op.attrs);
  if (!pieces.empty()) return OperandsOf(pieces);
  std::vector<int> operands;
  const ShardingRule& rule = builder_.rule(op.id);
  for (size_t k = 0; k < rule.operands.size(); ++k) {
    if (rule.operands[k].differentiable) operands.push_back(static_cast<int>(k));
  }
  return operands;
}

TensorId Differentiation::FindGradient(TensorId id) const {
  return id.index() < gradients_.size() ? gradients_[id.index()] : kNoTensor;
}

absl::StatusOr<TensorId> Differentiation::GradientOf(TensorId id) {
  TensorId& gradient = gradients_[id.index()];
  if (gradient == kNoTensor) {
    const Tensor source = builder_.tensor(id);
    ASSIGN_OR_RETURN(gradient,
                     builder_.AddActivation(absl::StrCat("d:", source.name), source.type));
  }
  return gradient;
}

absl::Status Differentiation::AddGradients(std::span<const OpId> forward, TensorId loss,
                                           TensorId seed) {
  FindNeeds(forward);
  if (!Needs(loss)) {
    return absl::InvalidArgumentError(absl::StrCat("no trainable weight leads to the loss '",
                                                   builder_.tensor(loss).name,
                                                   "', so there is nothing to train"));
  }
  gradients_[loss.index()] = seed;
  for (size_t k = forward.size(); k-- > 0;) {
    const Operator op = builder_.op(forward[k]);
    bool reached = false;
    for (TensorId id : op.outputs) reached |= FindGradient(id) != kNoTensor;
    if (reached && op.anchor_weight == kNoTensor) RETURN_IF_ERROR(AddBackward(op));
  }
  return absl::OkStatus();
}

absl::Status Differentiation::AddBackward(const Operator& op) {
  if (GradientPiecesOf(op.attrs).empty()) return AddDerived(op);
  return AddBackwardPieces(*this, op);
}

absl::Status Differentiation::AddDerived(const Operator& op) {
  std::vector<TensorId> results;
  for (TensorId id : op.outputs) {
    ASSIGN_OR_RETURN(const TensorId gradient, GradientOf(id));
    results.push_back(gradient);
  }
  for (int k : DifferentiableOperands(op)) {
    const TensorId operand = op.inputs[static_cast<size_t>(k)];
    if (!Needs(operand)) continue;
    ASSIGN_OR_RETURN(const TensorId gradient, GradientOf(operand));
    RETURN_IF_ERROR(builder_.AddGradient(op.id, k, results, gradient).status());
  }
  return absl::OkStatus();
}

}  // namespace partita
