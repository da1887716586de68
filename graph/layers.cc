#include "graph/layers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

absl::Status CheckIsWeight(const GraphBuilder& builder, const std::string& layer, TensorId id) {
  if (builder.tensor(id).kind == TensorKind::kWeight) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("batch normalisation '", layer, "': '",
                                                 builder.tensor(id).name,
                                                 "' should be a weight (running statistics)"));
}

absl::Status AddRunningStatistics(GraphBuilder& builder, const BatchNormLayer& layer,
                                  const Operator& moments, int64_t count) {
  const RunningFields fields{.count = count, .momentum = layer.momentum};
  RETURN_IF_ERROR(CheckIsWeight(builder, layer.name, layer.running_mean));
  RETURN_IF_ERROR(CheckIsWeight(builder, layer.name, layer.running_variance));
  RETURN_IF_ERROR(builder
                      .AddUpdate({.name = absl::StrCat(layer.name, ".running_mean"),
                                  .attrs = RunningMean{fields},
                                  .inputs = {layer.running_mean, moments.outputs[0]},
                                  .persistent = {layer.running_mean}})
                      .status());
  return builder
      .AddUpdate({.name = absl::StrCat(layer.name, ".running_variance"),
                  .attrs = RunningVariance{fields},
                  .inputs = {layer.running_variance, moments.outputs[0], moments.outputs[1]},
                  .persistent = {layer.running_variance}})
      .status();
}

// `base`, or "base_2", ..., so that neither it nor "NAME.anything" is a tensor or operator yet.
std::string FreeName(const GraphBuilder& builder, const std::string& base) {
  auto taken = [&](const std::string& name) {
    auto clashes = [&](absl::string_view other) {
      return other == name || absl::StartsWith(other, absl::StrCat(name, "."));
    };
    return std::any_of(builder.tensors().begin(), builder.tensors().end(),
                       [&](const Tensor& tensor) { return clashes(tensor.name); }) ||
           std::any_of(builder.ops().begin(), builder.ops().end(),
                       [&](const Operator& op) { return clashes(op.name); });
  };
  std::string name = base;
  for (int k = 2; taken(name); ++k) name = absl::StrCat(base, "_", k);
  return name;
}

// The softmax layer whose last operator is `apply`.
absl::StatusOr<TensorId> AddSoftmaxLayer(GraphBuilder& builder, const std::string& name, TensorId x,
                                         OpAttrs apply) {
  ASSIGN_OR_RETURN(const SoftmaxStatistics statistics, AddSoftmaxStatistics(builder, name, x));
  ASSIGN_OR_RETURN(const OpId core, builder.AddOp({.name = name,
                                                   .attrs = std::move(apply),
                                                   .inputs = {x, statistics.max, statistics.sum}}));
  builder.SetAnchor(statistics.max_op, core);
  builder.SetAnchor(statistics.sum_op, core);
  return builder.op(core).outputs[0];
}

}  // namespace

absl::StatusOr<TensorId> AddBatchNorm(GraphBuilder& builder, const BatchNormLayer& layer) {
  if (layer.frozen) {
    return builder.Add(
        {.name = layer.name,
         .attrs = AffineNormalize{.epsilon = layer.epsilon},
         .inputs = {layer.x, layer.running_mean, layer.running_variance, layer.gamma, layer.beta}});
  }
  const Shape x = builder.tensor(layer.x).type.shape;
  if (x.size() < 2 || x[1] < 1) {
    return absl::InvalidArgumentError(absl::StrCat("batch normalisation '", layer.name,
                                                   "' wants an operand [n, c, ...]; found ",
                                                   ToString(x)));
  }
  const int64_t count = Volume(x) / x[1];
  ASSIGN_OR_RETURN(const OpId moments_id,
                   builder.AddOp({.name = absl::StrCat(layer.name, ".moments"),
                                  .attrs = BatchMoments{},
                                  .inputs = {layer.x}}));
  const Operator moments = builder.op(moments_id);
  ASSIGN_OR_RETURN(
      const OpId core,
      builder.AddOp(
          {.name = layer.name,
           .attrs = BatchNormalize{BatchNormFields{.count = count, .epsilon = layer.epsilon}},
           .inputs = {layer.x, moments.outputs[0], moments.outputs[1], layer.gamma, layer.beta}}));
  builder.SetAnchor(moments_id, core);
  if (layer.running_mean != kNoTensor && layer.running_variance != kNoTensor) {
    RETURN_IF_ERROR(AddRunningStatistics(builder, layer, moments, count));
  }
  return builder.op(core).outputs[0];
}

absl::StatusOr<SoftmaxStatistics> AddSoftmaxStatistics(GraphBuilder& builder,
                                                       const std::string& name, TensorId x,
                                                       int32_t microbatch) {
  SoftmaxStatistics statistics;
  ASSIGN_OR_RETURN(statistics.max_op, builder.AddOp({.name = absl::StrCat(name, ".max"),
                                                     .attrs = RowMax{},
                                                     .inputs = {x},
                                                     .microbatch = microbatch}));
  statistics.max = builder.op(statistics.max_op).outputs[0];
  ASSIGN_OR_RETURN(statistics.sum_op, builder.AddOp({.name = absl::StrCat(name, ".sum"),
                                                     .attrs = SumExp{},
                                                     .inputs = {x, statistics.max},
                                                     .microbatch = microbatch}));
  statistics.sum = builder.op(statistics.sum_op).outputs[0];
  return statistics;
}

absl::StatusOr<TensorId> AddSoftmax(GraphBuilder& builder, const std::string& name, TensorId x) {
  return AddSoftmaxLayer(builder, name, x, SoftmaxApply{});
}

absl::StatusOr<LstmState> AddLstmCell(GraphBuilder& builder, const LstmCell& cell) {
  const bool is_first = cell.h == kNoTensor;
  std::vector<TensorId> operands = {cell.x, cell.input_weight};
  if (cell.bias != kNoTensor) operands.push_back(cell.bias);
  ASSIGN_OR_RETURN(const TensorId from_input, builder.Add({.name = absl::StrCat(cell.name, ".x"),
                                                           .attrs = MatMul{},
                                                           .inputs = std::move(operands)}));
  std::vector<TensorId> inputs = {from_input};
  if (!is_first) {
    ASSIGN_OR_RETURN(inputs.emplace_back(), builder.Add({.name = absl::StrCat(cell.name, ".h"),
                                                         .attrs = MatMul{},
                                                         .inputs = {cell.h, cell.hidden_weight}}));
    inputs.push_back(cell.c);
  }
  ASSIGN_OR_RETURN(const OpId gates, builder.AddOp({.name = cell.name,
                                                    .attrs = LstmGates{.first = is_first},
                                                    .inputs = std::move(inputs)}));
  const std::vector<TensorId>& states = builder.op(gates).outputs;
  return LstmState{states[0], states[1]};
}

absl::StatusOr<TensorId> AddLogSoftmax(GraphBuilder& builder, const std::string& name, TensorId x) {
  return AddSoftmaxLayer(builder, name, x, LogSoftmaxApply{});
}

absl::StatusOr<TensorId> AddDropout(GraphBuilder& builder, const std::string& name, TensorId x,
                                    double ratio) {
  return builder.Add({.name = name, .attrs = Dropout{.ratio = ratio}, .inputs = {x}});
}

absl::StatusOr<TensorId> AddLrn(GraphBuilder& builder, const std::string& name, TensorId x,
                                Lrn lrn) {
  lrn.pads = LrnPads(lrn.size);
  return builder.Add({.name = name, .attrs = std::move(lrn), .inputs = {x}});
}

absl::StatusOr<OpId> AddCrossEntropyTerm(GraphBuilder& builder, const LossTerm& term) {
  const TensorId logits = term.logits;
  const Shape shape = builder.tensor(logits).type.shape;
  if (shape.size() < 2 || Volume(shape) < 1) {
    return absl::InvalidArgumentError(absl::StrCat("the loss wants logits [rows..., classes]; '",
                                                   builder.tensor(logits).name, "' is ",
                                                   ToString(shape)));
  }
  const Shape rows(shape.begin(), shape.end() - 1);
  const auto named = [&](const char* base) {
    return FreeName(builder, MicrobatchName(base, term.microbatch));
  };
  ASSIGN_OR_RETURN(const TensorId labels, builder.AddLabels(named("labels"), rows));
  const std::string name = named("loss");
  ASSIGN_OR_RETURN(const SoftmaxStatistics softmax,
                   AddSoftmaxStatistics(builder, name, logits, term.microbatch));
  const auto of_role = [&](TensorRole role) {
    const auto ids = builder.tensors(role);
    return std::vector<TensorId>(ids.begin(), ids.end());
  };
  const bool is_first = of_role(TensorRole::kLoss).empty();
  const int64_t terms = term.microbatches;
  ASSIGN_OR_RETURN(
      const OpId loss,
      builder.AddOp({.name = name,
                     .attrs = CrossEntropy{CrossEntropyFields{.rows = Volume(rows) * terms}},
                     .inputs = {logits, labels, softmax.max, softmax.sum},
                     .outputs = of_role(TensorRole::kLoss),
                     .anchor = term.anchor,
                     .microbatch = term.microbatch}));
  const OpId anchor = is_first ? loss : term.anchor;
  builder.SetAnchor(softmax.max_op, anchor);
  builder.SetAnchor(softmax.sum_op, anchor);
  ASSIGN_OR_RETURN(const OpId correct, builder.AddOp({.name = absl::StrCat(name, ".correct"),
                                                      .attrs = CountCorrect{},
                                                      .inputs = {logits, labels, softmax.max},
                                                      .outputs = of_role(TensorRole::kCorrect),
                                                      .anchor = anchor,
                                                      .microbatch = term.microbatch}));
  if (is_first) {
    builder.AddRole(TensorRole::kLoss, builder.op(loss).outputs[0]);
    builder.AddRole(TensorRole::kCorrect, builder.op(correct).outputs[0]);
  }
  return loss;
}

std::vector<TensorId> LogitsBeforeSoftmax(const Graph& model) {
  std::vector<TensorId> result;
  for (TensorId logits : model.tensors(TensorRole::kLogits)) {
    result.push_back(logits);
    for (OpId id : model.producers(logits)) {
      const Operator& op = model.op(id);
      if (IsInCrossEntropy(op.attrs)) result.back() = op.inputs[0];
    }
  }
  return result;
}

absl::Status CheckIsForwardModel(const Graph& model) {
  const auto logits = model.tensors(TensorRole::kLogits);
  const auto is_computed = [&](TensorId id) {
    return model.tensor(id).kind == TensorKind::kActivation;
  };
  if (!model.is_training() && !model.tensors(TensorRole::kSamples).empty() && !logits.empty() &&
      std::all_of(logits.begin(), logits.end(), is_computed)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", model.name(),
                   "' should be a forward graph with an input, computed logits and no loss yet"));
}

}  // namespace partita
