#include "runtime/train/reference/reference_model.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/graph_copy.h"
#include "graph/model/model_source.h"
#include "graph/model/weights_file.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

absl::StatusOr<Graph> WithInitialWeights(const Graph& model, const std::string& path) {
  ASSIGN_OR_RETURN(const WeightsFile file, WeightsFile::Open(path));
  std::vector<std::shared_ptr<const std::vector<float>>> all(model.weights().size());
  for (size_t k = 0; k < all.size(); ++k) {
    const Weight& weight = model.weights()[k];
    const Tensor& tensor = model.tensor(weight.tensor);
    const absl::StatusOr<int64_t> offset = file.Find(tensor.name, tensor.type.shape);
    if (!offset.ok() && !weight.trainable) continue;
    RETURN_IF_ERROR(offset.status());
    auto values = std::make_shared<std::vector<float>>();
    RETURN_IF_ERROR(file.Read(*offset, Volume(tensor.type.shape), *values));
    all[k] = std::move(values);
  }
  return WithWeightValues(model, all);
}

}  // namespace

absl::StatusOr<Graph> LoadReferenceModel(const ReferenceFolder& reference) {
  if (IsModelFile(reference.model)) {
    ASSIGN_OR_RETURN(ImportedModel model, LoadModel(reference.model));
    return std::move(model.graph);
  }
  ASSIGN_OR_RETURN(const ImportedModel model,
                   LoadModel(reference.model, {.batch = reference.batch_shape[0]}));
  return WithInitialWeights(model.graph, absl::StrCat(reference.path, "/weights.safetensors"));
}

}  // namespace partita
