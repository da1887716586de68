#include "graph/training/backward.h"

#include <variant>

#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"

// One overload of Backward for each row of the operator table whose gradient is not derived.

namespace partita {
namespace {

// Reads x, m, s, dy; a second sum over the row, then the gradient.
absl::Status AddSoftmaxBackward(Differentiation& gradients, const Operator& op, OpAttrs dot,
                                std::vector<TensorId> dot_inputs, OpAttrs gradient) {
  GraphBuilder& builder = gradients.builder();
  ASSIGN_OR_RETURN(const TensorId dy, gradients.GradientOf(op.outputs[0]));
  ASSIGN_OR_RETURN(const TensorId dx, gradients.GradientOf(op.inputs[0]));
  dot_inputs.push_back(dy);
  ASSIGN_OR_RETURN(const TensorId t, builder.Add({.name = absl::StrCat(op.name, ".dot"),
                                                  .attrs = std::move(dot),
                                                  .inputs = std::move(dot_inputs),
                                                  .anchor = op.anchor}));
  return builder
      .AddOp({.name = absl::StrCat(op.name, ".grad"),
              .attrs = std::move(gradient),
              .inputs = {op.inputs[0], op.inputs[1], op.inputs[2], dy, t},
              .outputs = {dx},
              .anchor = op.anchor})
      .status();
}

ExplicitBackward Backward(const SoftmaxApply&) {
  return {{0}, [](Differentiation& gradients, const Operator& op) {
            return AddSoftmaxBackward(gradients, op, SoftmaxDot{},
                                      {op.inputs[0], op.inputs[1], op.inputs[2]}, SoftmaxGrad{});
          }};
}

ExplicitBackward Backward(const LogSoftmaxApply&) {
  return {{0}, [](Differentiation& gradients, const Operator& op) {
            return AddSoftmaxBackward(gradients, op, RowSum{}, {}, LogSoftmaxGrad{});
          }};
}

absl::Status AddCrossEntropyBackward(Differentiation& gradients, const Operator& op) {
  ASSIGN_OR_RETURN(const TensorId dloss, gradients.GradientOf(op.outputs[0]));
  ASSIGN_OR_RETURN(const TensorId dx, gradients.GradientOf(op.inputs[0]));
  const CrossEntropyFields fields = std::get<CrossEntropy>(op.attrs);
  return gradients.builder()
      .AddOp({.name = absl::StrCat(op.name, ".grad"),
              .attrs = CrossEntropyGrad{fields},
              .inputs = {op.inputs[0], op.inputs[1], op.inputs[2], op.inputs[3], dloss},
              .outputs = {dx},
              .anchor = op.anchor})
      .status();
}

ExplicitBackward Backward(const CrossEntropy&) { return {{0}, AddCrossEntropyBackward}; }

absl::StatusOr<OpId> AddBatchNormGradMoments(Differentiation& gradients, const Operator& op,
                                             const std::string& name,
                                             std::vector<TensorId> outputs) {
  const BatchNormFields fields = std::get<BatchNormalize>(op.attrs);
  ASSIGN_OR_RETURN(const TensorId dy, gradients.GradientOf(op.outputs[0]));
  return gradients.builder().AddOp({.name = name,
                                    .attrs = BatchNormGradMoments{fields},
                                    .inputs = {op.inputs[0], op.inputs[1], op.inputs[2], dy},
                                    .outputs = std::move(outputs),
                                    .anchor = op.anchor});
}

// Operands x, s1, s2, gamma, beta. The sums that dx needs are the gradients of gamma and beta. Only
// where another layer shares gamma or beta, whose gradient then has further terms, are they
// computed a second time.
absl::Status AddBatchNormBackward(Differentiation& gradients, const Operator& op) {
  GraphBuilder& builder = gradients.builder();
  const TensorId x = op.inputs[0], gamma = op.inputs[3], beta = op.inputs[4];
  const bool shared = gradients.CountReaders(gamma) > 1 || gradients.CountReaders(beta) > 1;
  const bool trained = gradients.Needs(gamma) || gradients.Needs(beta);
  std::vector<TensorId> moments;
  if (trained) {
    ASSIGN_OR_RETURN(const TensorId dgamma, gradients.GradientOf(gamma));
    ASSIGN_OR_RETURN(const TensorId dbeta, gradients.GradientOf(beta));
    moments = {dgamma, dbeta};
    RETURN_IF_ERROR(
        AddBatchNormGradMoments(gradients, op, absl::StrCat(op.name, ".grad_moments"), moments)
            .status());
  }
  if (!gradients.Needs(x)) return absl::OkStatus();
  if (!trained || shared) {
    ASSIGN_OR_RETURN(
        const OpId own,
        AddBatchNormGradMoments(gradients, op, absl::StrCat(op.name, ".own_grad_moments"), {}));
    moments = builder.op(own).outputs;
  }
  ASSIGN_OR_RETURN(const TensorId dy, gradients.GradientOf(op.outputs[0]));
  ASSIGN_OR_RETURN(const TensorId dx, gradients.GradientOf(x));
  const BatchNormFields fields = std::get<BatchNormalize>(op.attrs);
  return builder
      .AddOp({.name = absl::StrCat(op.name, ".grad_apply"),
              .attrs = BatchNormGradApply{fields},
              .inputs = {x, op.inputs[1], op.inputs[2], gamma, dy, moments[1], moments[0]},
              .outputs = {dx},
              .anchor = op.anchor})
      .status();
}

ExplicitBackward Backward(const BatchNormalize&) { return {{0, 3, 4}, AddBatchNormBackward}; }

}  // namespace

std::optional<ExplicitBackward> ExplicitBackwardOf(const OpAttrs& attrs) {
  return std::visit(
      [](const auto& row) -> std::optional<ExplicitBackward> {
        if constexpr (requires { Backward(row); }) {
          return Backward(row);
        } else {
          return std::nullopt;
        }
      },
      attrs);
}

}  // namespace partita
