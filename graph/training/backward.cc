#include "graph/training/backward.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

class BackwardPieces {
 public:
  BackwardPieces(Differentiation& gradients, const Operator& op)
      : gradients_(gradients), op_(op), pieces_(GradientPiecesOf(op.attrs)) {}

  absl::Status Run() {
    for (size_t k = 0; k < pieces_.size(); ++k) {
      if (IsWanted(pieces_[k])) RETURN_IF_ERROR(AddWanted(k));
    }
    return absl::OkStatus();
  }

 private:
  using Piece = GradientPiece<OpAttrs>;

  TensorId OperandOf(int k) const { return op_.inputs[static_cast<size_t>(k)]; }
  bool IsWanted(const Piece& piece) const {
    return std::any_of(piece.gradients_of.begin(), piece.gradients_of.end(),
                       [&](int k) { return gradients_.Needs(OperandOf(k)); });
  }
  // Whether another layer reads one of the operands, so that their gradients have further terms.
  bool IsShared(const Piece& piece) const {
    return std::any_of(piece.gradients_of.begin(), piece.gradients_of.end(),
                       [&](int k) { return gradients_.CountReaders(OperandOf(k)) > 1; });
  }

  static bool ReadsEarlier(const Piece& piece) {
    return std::any_of(piece.inputs.begin(), piece.inputs.end(), [](const GradientTensor& t) {
      return t.kind == GradientTensor::Kind::kEarlier;
    });
  }

  // Results of the piece that `k` reads. Gradients of operands serve where they have no further
  // terms; otherwise it is computed a second time.
  absl::Status FindEarlier(size_t k) {
    const Piece& earlier = pieces_[k - 1];
    if (!earlier.gradients_of.empty() && IsWanted(earlier) && !IsShared(earlier)) {
      return absl::OkStatus();
    }
    const bool again = !earlier.gradients_of.empty();
    return Add(earlier, absl::StrCat(again ? "own_" : "", earlier.ending), {});
  }

  absl::Status AddWanted(size_t k) {
    const Piece& piece = pieces_[k];
    const bool reads = ReadsEarlier(piece);
    if (reads && !pieces_[k - 1].gradients_of.empty()) RETURN_IF_ERROR(FindEarlier(k));
    std::vector<TensorId> outputs;
    for (int operand : piece.gradients_of) {
      ASSIGN_OR_RETURN(const TensorId gradient, gradients_.GradientOf(OperandOf(operand)));
      outputs.push_back(gradient);
    }
    if (reads && pieces_[k - 1].gradients_of.empty()) RETURN_IF_ERROR(FindEarlier(k));
    return Add(piece, piece.ending, std::move(outputs));
  }

  absl::StatusOr<TensorId> Find(const GradientTensor& wanted) {
    using Kind = GradientTensor::Kind;
    const auto index = static_cast<size_t>(wanted.index);
    switch (wanted.kind) {
      case Kind::kOperand:
        break;
      case Kind::kResultGradient:
        return gradients_.GradientOf(op_.outputs[index]);
      case Kind::kOperandGradient:
        return gradients_.GradientOf(op_.inputs[index]);
      case Kind::kEarlier:
        return earlier_[index];
    }
    return op_.inputs[index];
  }

  absl::Status Add(const Piece& piece, absl::string_view ending, std::vector<TensorId> outputs) {
    std::vector<TensorId> inputs;
    for (const GradientTensor& wanted : piece.inputs) {
      ASSIGN_OR_RETURN(const TensorId id, Find(wanted));
      inputs.push_back(id);
    }
    ASSIGN_OR_RETURN(const OpId id,
                     gradients_.builder().AddOp({.name = absl::StrCat(op_.name, ".", ending),
                                                 .attrs = piece.attrs,
                                                 .inputs = std::move(inputs),
                                                 .outputs = std::move(outputs),
                                                 .anchor = op_.anchor,
                                                 .microbatch = op_.microbatch}));
    earlier_ = gradients_.builder().op(id).outputs;
    return absl::OkStatus();
  }

  Differentiation& gradients_;
  const Operator& op_;
  const std::vector<Piece> pieces_;
  std::vector<TensorId> earlier_;  // results of the piece added last
};

}  // namespace

std::vector<int> OperandsOf(const std::vector<GradientPiece<OpAttrs>>& pieces) {
  std::vector<int> operands;
  for (const GradientPiece<OpAttrs>& piece : pieces) {
    operands.insert(operands.end(), piece.gradients_of.begin(), piece.gradients_of.end());
  }
  std::sort(operands.begin(), operands.end());
  return operands;
}

absl::Status AddBackwardPieces(Differentiation& gradients, const Operator& op) {
  return BackwardPieces(gradients, op).Run();
}

}  // namespace partita
