#include "graph/model/microbatch.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "graph/graph_copy.h"
#include "graph/model/rebatch.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

// Copies a graph for one microbatch once for each of them.
class Microbatching {
 public:
  Microbatching(const Graph& part, int count)
      : part_(part),
        count_(count),
        builder_(part.name()),
        tensors_(part.tensors().size(), kNoTensor),
        first_(part.ops().size(), kNoOp) {}

  absl::StatusOr<Graph> Run() {
    for (int32_t k = 0; k < count_; ++k) RETURN_IF_ERROR(AddMicrobatch(k));
    return std::move(builder_).Build();
  }

 private:
  absl::Status AddMicrobatch(int32_t k) {
    for (const Tensor& tensor : part_.tensors()) RETURN_IF_ERROR(CopyTensor(tensor, k));
    std::vector<OpId> ops;
    for (const Operator& op : part_.ops()) {
      ASSIGN_OR_RETURN(const OpId copy, CopyOp(op, k));
      ops.push_back(copy);
    }
    if (k == 0) first_ = ops;
    for (const Operator& op : part_.ops()) {
      const OpId copy = ops[op.id.index()];
      if (op.anchor != kNoOp) builder_.SetAnchor(copy, first_[op.anchor.index()]);
      std::vector<OpId> after;
      for (OpId id : op.after) after.push_back(ops[id.index()]);
      builder_.SetAfter(copy, std::move(after));
    }
    for (TensorId logits : part_.tensors(TensorRole::kLogits)) {
      builder_.AddRole(TensorRole::kLogits, tensors_[logits.index()]);
    }
    return absl::OkStatus();
  }

  absl::Status CopyTensor(const Tensor& tensor, int32_t k) {
    TensorId& copy = tensors_[tensor.id.index()];
    if (tensor.kind == TensorKind::kInput) {
      ASSIGN_OR_RETURN(copy, builder_.AddInput(MicrobatchName(tensor.name, k), tensor.type));
    } else if (tensor.kind == TensorKind::kWeight && k == 0) {
      const Weight& weight = *part_.FindWeight(tensor.id);
      ASSIGN_OR_RETURN(copy, builder_.AddWeight(tensor.name, tensor.type, weight.initializer,
                                                weight.values, weight.trainable));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<OpId> CopyOp(const Operator& op, int32_t k) {
    std::vector<TensorId> inputs;
    for (TensorId id : op.inputs) inputs.push_back(tensors_[id.index()]);
    OpId copy;
    if (op.anchor_weight != kNoTensor) {
      ASSIGN_OR_RETURN(copy, CopyUpdate(op, std::move(inputs), k));
    } else {
      ASSIGN_OR_RETURN(copy, builder_.AddOp({.name = MicrobatchName(op.name, k),
                                             .attrs = op.attrs,
                                             .inputs = std::move(inputs),
                                             .microbatch = k}));
    }
    for (size_t r = 0; r < op.outputs.size(); ++r) {
      tensors_[op.outputs[r].index()] = builder_.op(copy).outputs[r];
    }
    return copy;
  }

  // What a microbatch makes of a statistic is where the next one begins.
  absl::StatusOr<OpId> CopyUpdate(const Operator& op, std::vector<TensorId> inputs, int32_t k) {
    GraphBuilder::UpdateSpec update = UpdateSpecOf(part_, op);
    update.name = MicrobatchName(op.name, k);
    update.microbatch = k;
    update.is_last = k + 1 == count_;
    update.inputs = std::move(inputs);
    for (TensorId& id : update.persistent) id = tensors_[id.index()];
    const auto before = values_.find(update.persistent[0]);
    if (before != values_.end()) update.inputs[0] = before->second;
    const TensorId weight = update.persistent[0];
    ASSIGN_OR_RETURN(const OpId copy, builder_.AddUpdate(std::move(update)));
    values_[weight] = builder_.op(copy).outputs[0];
    return copy;
  }

  const Graph& part_;
  const int32_t count_;
  GraphBuilder builder_;
  std::vector<TensorId> tensors_;  // by tensor of `part_`: the copy for the current microbatch
  std::vector<OpId> first_;        // by operator of `part_`: the copy for the first microbatch
  absl::flat_hash_map<TensorId, TensorId> values_;  // what the last update made of a weight
};

}  // namespace

absl::StatusOr<Graph> Microbatch(const Graph& model, int count) {
  if (model.microbatches() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", model.name(), "' has ", model.microbatches(), " microbatches already"));
  }
  if (count < 1 || model.batch() % count != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a batch of ", model.batch(), " samples cannot be split into ", count,
                     " equal microbatches; take a number that divides it, or another batch size"));
  }
  if (count == 1) return model;
  ASSIGN_OR_RETURN(const Graph part, Rebatch(model, model.batch() / count));
  return Microbatching(part, count).Run();
}

}  // namespace partita
