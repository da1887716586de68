#include "graph/onnx/import.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "graph/onnx/decode.h"
#include "graph/onnx/importer.h"
#include "graph/onnx/operators.h"
#include "graph/support/file.h"
#include "graph/support/fingerprint.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

absl::StatusOr<ImportedModel> ImportFrom(std::string bytes, const std::string& name,
                                         const std::string& folder, const ImportOptions& options) {
  if (options.batch < 0 || options.batch > kMaxExtent) {
    return absl::InvalidArgumentError(
        absl::StrCat("the batch is ", options.batch, "; wanted at least 1"));
  }
  const uint64_t fingerprint = FingerprintOf(bytes);
  ASSIGN_OR_RETURN(auto proto, onnx::DecodeModel(bytes, name));
  bytes = {};  // the decoded form has its own copy of the weights
  std::string graph_name = options.name;
  if (graph_name.empty()) graph_name = std::filesystem::path(name).stem().string();
  absl::StatusOr<ImportedModel> imported = absl::UnknownError("");
  if (auto model = onnx::CheckModel(std::move(proto), folder); model.ok()) {
    imported = onnx::Importer(*std::move(model), options, graph_name).Run();
  } else {
    imported = model.status();
  }
  if (!imported.ok()) {
    const absl::Status& status = imported.status();
    absl::Status named(status.code(), absl::StrCat("'", name, "': ", status.message()));
    status.ForEachPayload([&named](absl::string_view url, const absl::Cord& payload) {
      named.SetPayload(url, payload);
    });
    return named;
  }
  imported->source_fingerprint = fingerprint;
  return imported;
}

}  // namespace

absl::StatusOr<ImportedModel> ImportOnnx(const std::string& path, const ImportOptions& options) {
  ASSIGN_OR_RETURN(std::string bytes, ReadFile(path, onnx::kMaxModelBytes));
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  return ImportFrom(std::move(bytes), path, folder, options);
}

absl::StatusOr<ImportedModel> ImportOnnxBytes(absl::string_view bytes, const std::string& name,
                                              const ImportOptions& options) {
  return ImportFrom(std::string(bytes), name, "", options);
}

std::vector<std::pair<absl::string_view, absl::string_view>> OnnxOperatorTable() {
  std::vector<std::pair<absl::string_view, absl::string_view>> rows;
  for (const onnx::OperatorRow& row : onnx::OperatorRows()) {
    rows.emplace_back(row.name, row.description);
  }
  return rows;
}

}  // namespace partita
