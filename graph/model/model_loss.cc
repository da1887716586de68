#include "graph/model/model_loss.h"

#include "absl/strings/str_cat.h"
#include "graph/layers.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

absl::Status Refused(const Graph& model, absl::string_view why) {
  const Tensor& output = model.tensor(model.only(TensorRole::kLogits));
  return absl::InvalidArgumentError(absl::StrCat(
      "the output '", output.name, "' is ", ToString(output.type.shape), ": ", why,
      ". Supported is mean cross-entropy over classes: an output [", model.batch(),
      ", classes] with one row of at least 2 scores for each sample, or [", model.batch(),
      ", steps, classes] where the input is a sequence of integers. Regression, autoencoders and "
      "segmentation are not supported"));
}

}  // namespace

std::string ToString(const ModelLoss& loss) {
  return absl::StrCat("mean cross-entropy over ", loss.classes, " classes");
}

absl::StatusOr<ModelLoss> LossOf(const Graph& model, bool named) {
  RETURN_IF_ERROR(CheckIsForwardModel(model));
  const TensorId logits = model.only(TensorRole::kLogits);
  const Shape& shape = model.tensor(logits).type.shape;
  const TensorType input = model.WholeType(TensorRole::kSamples);
  const bool sequence =
      input.dtype == DType::kInt32 && input.shape.size() == 2 && shape.size() == 3;
  if (shape.size() != 2 && !sequence) {
    return Refused(model, absl::StrCat("it has ", shape.size(), " dimensions, not 2"));
  }
  if (shape[0] != model.batch()) {
    return Refused(model,
                   absl::StrCat("it has ", shape[0], " rows for ", model.batch(), " samples"));
  }
  if (shape.back() < 2) return Refused(model, "one score cannot tell classes apart");
  const bool softmax = LogitsBeforeSoftmax(model)[0] != logits;
  if (!named && !softmax && !sequence && Volume(shape) == Volume(input.shape)) {
    return Refused(model, absl::StrCat("it has as many elements as the input, like an "
                                       "autoencoder's. If these are ",
                                       shape[1], " classes, say --loss ", kCrossEntropyName));
  }
  return ModelLoss{.classes = shape.back()};
}

}  // namespace partita
