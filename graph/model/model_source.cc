#include "graph/model/model_source.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "graph/model/model_io.h"
#include "graph/model/rebatch.h"
#include "graph/support/doing.h"
#include "graph/support/fingerprint.h"
#include "graph/support/status_macros.h"
#include "graph/training/frozen_batch_norm.h"
#include "graph/zoo/models.h"

namespace partita {
namespace {

absl::StatusOr<ImportedModel> LoadZooModel(const std::string& name, const ImportOptions& options) {
  ImportedModel model;
  const int64_t batch = options.batch == 0 ? kDefaultBatch : options.batch;
  ASSIGN_OR_RETURN(model.graph, MakeZooModel(name, batch, options.sizes));
  model.source_fingerprint = FingerprintOf(name);
  return model;
}

absl::StatusOr<ImportedModel> LoadNative(const std::string& path, const ImportOptions& options) {
  ASSIGN_OR_RETURN(ModelFile file, LoadModelFile(path, options.values));
  ImportedModel model{.graph = std::move(file.graph),
                      .notes = std::move(file.notes),
                      .folded_batch_norms = std::move(file.folded_batch_norms),
                      .operators = {}};
  if (!file.side_file.empty()) model.side_files = {std::move(file.side_file)};
  model.source_fingerprint = model.graph.fingerprint();
  const int64_t own = model.graph.batch();
  if (options.batch != 0 && options.batch != own) {
    ASSIGN_OR_RETURN(model.graph, Rebatch(model.graph, options.batch));
    model.notes.push_back(absl::StrCat("re-batched from ", own, " to ", options.batch));
  }
  return model;
}

}  // namespace

bool IsModelFile(const std::string& name_or_path) {
  return name_or_path.find('/') != std::string::npos ||
         std::filesystem::path(name_or_path).has_extension();
}

absl::StatusOr<ImportedModel> LoadModel(const std::string& name_or_path,
                                        const ImportOptions& options) {
  const Doing doing("reading model", name_or_path);
  const std::string ending = std::filesystem::path(name_or_path).extension().string();
  if (!IsModelFile(name_or_path)) {
    ASSIGN_OR_RETURN(ImportedModel model, LoadZooModel(name_or_path, options));
    if (options.freeze_bn) {
      ASSIGN_OR_RETURN(model.graph, WithFrozenBatchNorm(model.graph));
    }
    return model;
  }
  if (options.sizes != ModelSizes{}) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", name_or_path,
                     "' is a file, whose steps, layers and other sizes are what they are; only "
                     "models of the zoo take others: export it as large as you want"));
  }
  if (ending == ".onnx") return ImportOnnx(name_or_path, options);
  std::error_code error;
  if (!std::filesystem::exists(name_or_path, error)) {
    return absl::NotFoundError(absl::StrCat("there is no file '", name_or_path, "'"));
  }
  if (ending != ".textproto") {
    return absl::InvalidArgumentError(
        absl::StrCat("'", name_or_path,
                     "' is neither .onnx nor .textproto, the model files that "
                     "are read"));
  }
  ASSIGN_OR_RETURN(ImportedModel model, LoadNative(name_or_path, options));
  if (options.freeze_bn) {
    ASSIGN_OR_RETURN(model.graph, WithFrozenBatchNorm(model.graph));
  }
  return model;
}

}  // namespace partita
