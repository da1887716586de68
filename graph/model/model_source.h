#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "graph/onnx/import.h"

namespace partita {

// The batch of models that state none (the zoo).
constexpr int64_t kDefaultBatch = 64;

// The model that a user names: with a '/' or a file ending, a file (.onnx, or .textproto for
// Partita's own form), otherwise one of the zoo. options.batch re-batches; 0 keeps the model's own
// batch. options.sizes are for those of the zoo that have them (MakeZooModel). For models that are
// not from ONNX, `operators` and `opset` are empty and the fingerprint is of the text, or of the
// name. NotFound for an absent file and, listing the zoo, for an unknown name.
absl::StatusOr<ImportedModel> LoadModel(const std::string& name_or_path,
                                        const ImportOptions& options = {});

// Whether the name is that of a file.
bool IsModelFile(const std::string& name_or_path);

}  // namespace partita
