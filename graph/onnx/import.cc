#include "graph/onnx/import.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "graph/onnx/decode.h"
#include "graph/onnx/importer.h"
#include "graph/onnx/operators.h"
#include "graph/support/error_category.h"
#include "graph/support/fingerprint.h"
#include "graph/support/mapped_file.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

// The file is mapped rather than read, so that what is no model is refused at its first bytes. It
// is unmapped here: the decoded form has its own copy of the weights.
absl::StatusOr<std::unique_ptr<onnx::ModelProto>> DecodeFile(const std::string& path,
                                                             uint64_t* fingerprint) {
  ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  const absl::string_view bytes(reinterpret_cast<const char*>(file.bytes().data()),
                                file.bytes().size());
  auto proto = onnx::DecodeModel(bytes, path);
  *fingerprint = proto.ok() ? FingerprintOf(bytes) : 0;
  RETURN_IF_ERROR(file.Check());
  return proto;
}

absl::Status CheckBatch(const ImportOptions& options) {
  if (options.batch < 0 || options.batch > kMaxExtent) {
    return absl::InvalidArgumentError(
        absl::StrCat("the batch is ", options.batch, "; wanted at least 1"));
  }
  return absl::OkStatus();
}

// `name`: of the model in messages.
absl::StatusOr<ImportedModel> ImportFrom(std::unique_ptr<onnx::ModelProto> proto,
                                         const std::string& name, const std::string& folder,
                                         const ImportOptions& options) {
  std::string graph_name = options.name;
  if (graph_name.empty()) graph_name = std::filesystem::path(name).stem().string();
  absl::StatusOr<ImportedModel> imported = absl::UnknownError("");
  if (auto model = onnx::CheckModel(std::move(proto), {name, folder}); model.ok()) {
    imported = onnx::Importer(*std::move(model), options, graph_name).Run();
  } else {
    imported = model.status();
  }
  if (!imported.ok()) {
    const absl::Status& status = imported.status();
    return WithMessage(status, absl::StrCat("'", name, "': ", status.message()));
  }
  return imported;
}

}  // namespace

absl::StatusOr<ImportedModel> ImportOnnx(const std::string& path, const ImportOptions& options) {
  RETURN_IF_ERROR(CheckBatch(options));
  uint64_t fingerprint = 0;
  ASSIGN_OR_RETURN(auto proto, DecodeFile(path, &fingerprint));
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  ASSIGN_OR_RETURN(ImportedModel model, ImportFrom(std::move(proto), path, folder, options));
  model.source_fingerprint = fingerprint;
  return model;
}

absl::StatusOr<ImportedModel> ImportOnnxBytes(absl::string_view bytes, const std::string& name,
                                              const ImportOptions& options) {
  RETURN_IF_ERROR(CheckBatch(options));
  ASSIGN_OR_RETURN(auto proto, onnx::DecodeModel(bytes, name));
  ASSIGN_OR_RETURN(ImportedModel model, ImportFrom(std::move(proto), name, "", options));
  model.source_fingerprint = FingerprintOf(bytes);
  return model;
}

std::vector<std::pair<absl::string_view, absl::string_view>> OnnxOperatorTable() {
  std::vector<std::pair<absl::string_view, absl::string_view>> rows;
  for (const onnx::OperatorRow& row : onnx::OperatorRows()) {
    rows.emplace_back(row.name, row.description);
  }
  return rows;
}

}  // namespace partita
