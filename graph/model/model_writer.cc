#include <google/protobuf/text_format.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/model/model_attributes.h"
#include "graph/model/model_io.h"
#include "graph/model/weights_file.h"
#include "graph/support/doing.h"
#include "graph/support/error_category.h"
#include "graph/support/file.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

absl::Status WriteTensor(const Graph& model, const Tensor& tensor, bool inline_values,
                         proto::Model& to) {
  if (tensor.kind == TensorKind::kInput) {
    proto::ModelInput& input = *to.add_item()->mutable_input();
    input.set_name(tensor.name);
    for (int64_t extent : tensor.type.shape) input.add_shape(extent);
    input.set_integers(tensor.type.dtype == DType::kInt32);
    return absl::OkStatus();
  }
  const Weight* weight = model.FindWeight(tensor.id);
  if (weight == nullptr || tensor.type.dtype != DType::kFloat32) {
    return InvalidInput("'", tensor.name, "' is no part of a forward graph of floats");
  }
  proto::ModelWeight& out = *to.add_item()->mutable_weight();
  out.set_name(tensor.name);
  for (int64_t extent : tensor.type.shape) out.add_shape(extent);
  out.set_frozen(!weight->trainable);
  if (weight->initializer.kind == Initializer::Kind::kUniformFanIn) {
    out.set_fan_in(weight->initializer.fan_in);
  } else {
    out.set_constant(weight->initializer.value);
  }
  if (weight->values != nullptr && !inline_values) out.set_stored(true);
  if (weight->values != nullptr && inline_values) {
    out.set_inline_values(reinterpret_cast<const char*>(weight->values->data()),
                          weight->values->size() * sizeof(float));
  }
  return absl::OkStatus();
}

absl::Status WriteOperator(const Graph& model, const Operator& op, proto::Model& to) {
  if (!op.pass.is_forward()) {
    return InvalidInput("operator '", op.name, "' is a gradient; only forward graphs are saved");
  }
  proto::ModelOperator& out = *to.add_item()->mutable_operator_();
  out.set_name(op.name);
  WriteAttrs(op.attrs, out);
  for (TensorId id : op.inputs) out.add_input(model.tensor(id).name);
  for (OpId id : op.after) out.add_after(model.op(id).name);
  if (op.anchor_weight != kNoTensor) {
    for (TensorId id : op.outputs) {
      out.add_persistent(model.tensor(model.tensor(id).of).name);
    }
  } else if (op.anchor != op.id) {
    out.set_anchor(model.op(op.anchor).name);
  }
  return absl::OkStatus();
}

absl::StatusOr<proto::Model> ToProto(const Graph& model, bool inline_values) {
  if (model.is_training() || model.microbatches() > 1 ||
      model.only(TensorRole::kLogits) == kNoTensor) {
    return InvalidInput("'", model.name(),
                        "' is not a forward graph of the whole batch; only those are saved");
  }
  proto::Model to;
  to.set_format_version(kModelFormatVersion);
  to.set_name(model.name());
  to.set_logits(model.tensor(model.only(TensorRole::kLogits)).name);
  // In the order in which they were built, so that ids stay.
  size_t next = 0;
  for (const Operator& op : model.ops()) {
    for (; next < op.outputs[0].index(); ++next) {
      RETURN_IF_ERROR(WriteTensor(model, model.tensors()[next], inline_values, to));
    }
    RETURN_IF_ERROR(WriteOperator(model, op, to));
    next = std::max(next, op.outputs.back().index() + 1);
  }
  for (; next < model.tensors().size(); ++next) {
    RETURN_IF_ERROR(WriteTensor(model, model.tensors()[next], inline_values, to));
  }
  return to;
}

absl::StatusOr<std::string> ToText(const proto::Model& model) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetUseShortRepeatedPrimitives(true);
  std::string text;
  if (!printer.PrintToString(model, &text)) return absl::InternalError("cannot print the model");
  return "# A model for partita; see proto/model.proto.\n" + text;
}

}  // namespace

absl::StatusOr<std::string> ModelText(const Graph& model) {
  ASSIGN_OR_RETURN(const proto::Model to, ToProto(model, /*inline_values=*/true));
  return ToText(to);
}

absl::StatusOr<std::string> SaveModel(const Graph& model, const std::string& path,
                                      const std::vector<std::string>& folded_batch_norms) {
  const Doing doing("writing model", path);
  ASSIGN_OR_RETURN(proto::Model to, ToProto(model, /*inline_values=*/false));
  for (const std::string& layer : folded_batch_norms) to.add_folded_batch_norm(layer);
  ASSIGN_OR_RETURN(const WrittenWeights weights, WriteWeightsFile(model, path));
  if (!weights.file.empty()) {
    to.set_weights_file(weights.file);
    to.set_weights_hash(weights.hash);
  }
  ASSIGN_OR_RETURN(const std::string text, ToText(to));
  RETURN_IF_ERROR(WriteFileAtomically(path, text));
  return weights.file;
}

}  // namespace partita
