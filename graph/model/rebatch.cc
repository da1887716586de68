#include "graph/model/rebatch.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/graph_copy.h"
#include "graph/model/model_limits.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

// Replays a graph's construction with another batch.
class Rebatching {
 public:
  Rebatching(const Graph& model, const BatchChange& batch)
      : model_(model), batch_(batch), builder_(model.name()), copies_(model.tensors().size()) {}

  absl::StatusOr<Graph> Run() {
    // Tensors in their order, so that ids stay; results of operators come with the operators.
    size_t next = 0;
    for (const Operator& op : model_.ops()) {
      for (; next < op.outputs[0].index(); ++next) {
        RETURN_IF_ERROR(CopyTensor(model_.tensors()[next]));
      }
      RETURN_IF_ERROR(CopyOp(op));
      next = std::max(next, op.outputs.back().index() + 1);
    }
    for (; next < copies_.size(); ++next) RETURN_IF_ERROR(CopyTensor(model_.tensors()[next]));
    for (const Operator& op : model_.ops()) {
      if (op.anchor != kNoOp) builder_.SetAnchor(op.id, op.anchor);
      builder_.SetAfter(op.id, op.after);
    }
    for (TensorId id : model_.tensors(TensorRole::kLogits)) {
      builder_.AddRole(TensorRole::kLogits, copies_[id.index()]);
    }
    return std::move(builder_).Build();
  }

 private:
  absl::Status CopyTensor(const Tensor& tensor) {
    TensorType type = tensor.type;
    TensorId& copy = copies_[tensor.id.index()];
    if (tensor.kind == TensorKind::kInput) {
      type.shape[0] = batch_.to;
      RETURN_IF_ERROR(CheckedVolume(type.shape).status());
      ASSIGN_OR_RETURN(copy, builder_.AddInput(tensor.name, type));
      return absl::OkStatus();
    }
    const Weight* weight = model_.FindWeight(tensor.id);
    if (weight == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", tensor.name, "' is no part of a forward graph"));
    }
    ASSIGN_OR_RETURN(copy, builder_.AddWeight(tensor.name, type, weight->initializer,
                                              weight->values, weight->trainable));
    return absl::OkStatus();
  }

  absl::Status CopyOp(const Operator& op) {
    const auto at = [&op](const absl::Status& status) {
      return absl::InvalidArgumentError(
          absl::StrCat("re-batching operator '", op.name, "': ", status.message()));
    };
    std::vector<TensorId> inputs;
    std::vector<Shape> shapes;
    for (TensorId id : op.inputs) {
      inputs.push_back(copies_[id.index()]);
      shapes.push_back(builder_.tensor(inputs.back()).type.shape);
    }
    OpAttrs attrs = op.attrs;
    const Shape x = shapes.empty() ? Shape{} : shapes[0];
    absl::Status status = partita::Rebatch(attrs, x, batch_);
    if (!status.ok()) return at(status);
    absl::StatusOr<OpId> copy = kNoOp;
    if (op.anchor_weight != kNoTensor) {
      GraphBuilder::UpdateSpec update = UpdateSpecOf(model_, op);
      update.attrs = attrs;
      update.inputs = inputs;
      for (TensorId& id : update.persistent) id = copies_[id.index()];
      copy = builder_.AddUpdate(std::move(update));
    } else {
      copy = builder_.AddOp({.name = op.name, .attrs = attrs, .inputs = inputs});
    }
    if (!copy.ok()) return at(copy.status());
    std::vector<Shape> results;
    for (size_t k = 0; k < op.outputs.size(); ++k) {
      const TensorId result = builder_.op(*copy).outputs[k];
      copies_[op.outputs[k].index()] = result;
      results.push_back(builder_.tensor(result).type.shape);
    }
    status = CheckWithinLimits(attrs, shapes, results);
    return status.ok() ? status : at(status);
  }

  const Graph& model_;
  const BatchChange batch_;
  GraphBuilder builder_;
  std::vector<TensorId> copies_;  // by the model's tensor
};

}  // namespace

absl::StatusOr<Graph> Rebatch(const Graph& model, int64_t batch) {
  if (batch < 1 || batch > kMaxExtent) {
    return absl::InvalidArgumentError(
        absl::StrCat("the batch is ", batch, "; wanted 1 to ", kMaxExtent));
  }
  if (model.is_training() || model.microbatches() != 1 ||
      model.tensors(TensorRole::kLogits).empty()) {
    return absl::InvalidArgumentError("only a forward graph of one batch can be re-batched");
  }
  if (model.batch() == batch) return model;
  return Rebatching(model, {model.batch(), batch}).Run();
}

}  // namespace partita
