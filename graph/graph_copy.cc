#include "graph/graph_copy.h"

#include <utility>

#include "graph/support/check.h"
#include "graph/support/status_macros.h"

namespace partita {

GraphCopy::GraphCopy(const Graph& source,
                     std::span<const std::shared_ptr<const std::vector<float>>> values)
    : source_(source),
      builder_(source.name()),
      tensors_(source.tensors().size(), kNoTensor),
      ops_(source.ops().size(), kNoOp) {
  CHECK(!source.is_training());
  for (const Tensor& tensor : source.tensors()) {
    absl::StatusOr<TensorId> copy = kNoTensor;
    if (tensor.kind == TensorKind::kInput) {
      copy = builder_.AddInput(tensor.name, tensor.type);
    } else if (tensor.kind == TensorKind::kWeight) {
      const Weight& weight = *source.FindWeight(tensor.id);
      const auto k = static_cast<size_t>(&weight - source.weights().data());
      const bool is_given = k < values.size() && values[k] != nullptr;
      copy = builder_.AddWeight(tensor.name, tensor.type, weight.initializer,
                                is_given ? values[k] : weight.values, weight.trainable);
    }
    CHECK(copy.ok()) << copy.status();
    tensors_[tensor.id.index()] = *copy;
  }
}

TensorId GraphCopy::Map(TensorId id) const {
  const TensorId copy = tensors_[id.index()];
  CHECK(copy != kNoTensor) << source_.tensor(id).name;
  return copy;
}

absl::Status GraphCopy::CopyOp(const Operator& op) {
  CHECK(op.pass.is_forward());
  std::vector<TensorId> inputs;
  for (TensorId id : op.inputs) inputs.push_back(Map(id));
  OpId copy;
  if (op.anchor_weight != kNoTensor) {
    GraphBuilder::UpdateSpec update = UpdateSpecOf(source_, op);
    update.inputs = inputs;
    for (TensorId& id : update.persistent) id = Map(id);
    ASSIGN_OR_RETURN(copy, builder_.AddUpdate(std::move(update)));
  } else {
    ASSIGN_OR_RETURN(
        copy,
        builder_.AddOp(
            {.name = op.name, .attrs = op.attrs, .inputs = inputs, .microbatch = op.microbatch}));
  }
  ops_[op.id.index()] = copy;
  std::vector<OpId> after;
  for (OpId id : op.after) {
    if (ops_[id.index()] != kNoOp) after.push_back(ops_[id.index()]);
  }
  builder_.SetAfter(copy, std::move(after));
  for (size_t k = 0; k < op.outputs.size(); ++k) {
    tensors_[op.outputs[k].index()] = builder_.op(copy).outputs[k];
  }
  return absl::OkStatus();
}

void GraphCopy::CopyAnchors() {
  for (const Operator& op : source_.ops()) {
    if (ops_[op.id.index()] == kNoOp || op.anchor == kNoOp) continue;
    const OpId anchor = ops_[op.anchor.index()];
    if (anchor != kNoOp) builder_.SetAnchor(ops_[op.id.index()], anchor);
  }
}

GraphBuilder::UpdateSpec UpdateSpecOf(const Graph& graph, const Operator& op) {
  GraphBuilder::UpdateSpec spec{.name = op.name,
                                .attrs = op.attrs,
                                .inputs = op.inputs,
                                .microbatch = op.microbatch,
                                .is_last = graph.tensor(op.outputs[0]).kind == TensorKind::kNext};
  for (TensorId id : op.outputs) {
    if (spec.is_last) spec.persistent.push_back(graph.tensor(id).of);
  }
  if (!spec.is_last) spec.persistent = {op.anchor_weight};
  return spec;
}

void GraphCopy::CopyLogits() {
  for (TensorId id : source_.tensors(TensorRole::kLogits)) {
    builder_.AddRole(TensorRole::kLogits, Map(id));
  }
}

absl::StatusOr<Graph> WithWeightValues(
    const Graph& model, std::span<const std::shared_ptr<const std::vector<float>>> values) {
  GraphCopy copy(model, values);
  for (const Operator& op : model.ops()) RETURN_IF_ERROR(copy.CopyOp(op));
  copy.CopyAnchors();
  copy.CopyLogits();
  return std::move(copy.builder()).Build();
}

absl::StatusOr<Graph> WithoutDeadOperators(const Graph& model, std::span<const TensorId> results) {
  std::vector<bool> needed(model.tensors().size(), false);
  for (TensorId id : results) needed[id.index()] = true;
  std::vector<bool> alive(model.ops().size(), false);
  for (size_t k = model.ops().size(); k-- > 0;) {
    const Operator& op = model.ops()[k];
    bool live = op.anchor_weight != kNoTensor;
    for (TensorId id : op.outputs) live |= needed[id.index()];
    alive[k] = live;
    for (TensorId id : op.inputs) needed[id.index()] = needed[id.index()] || live;
  }
  GraphCopy copy(model);
  for (const Operator& op : model.ops()) {
    if (alive[op.id.index()]) RETURN_IF_ERROR(copy.CopyOp(op));
  }
  copy.CopyAnchors();
  for (TensorId id : results) copy.builder().AddRole(TensorRole::kLogits, copy.Map(id));
  return std::move(copy.builder()).Build();
}

}  // namespace partita
