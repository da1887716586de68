#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/graph.h"

// Partita's own form of a model (proto/model.proto): text that lists the input, the weights and the
// operators front to back. Values of weights are in a safetensors file beside it, keyed by their
// names; small models may hold them inline.

namespace partita {

// Writes a forward graph. If any weight has values, they go to the file's name with the ending
// ".safetensors". InvalidArgument for a training graph.
absl::Status SaveModel(const Graph& model, const std::string& path);

// The text alone, with the values inline.
absl::StatusOr<std::string> ModelText(const Graph& model);

// Reads what SaveModel writes: the same graph, with the same fingerprint. A side file that is
// absent leaves the weights without values, which `notes`, where given, says. InvalidArgument for
// anything wrong with it, with the line where the text ends to make sense.
absl::StatusOr<Graph> LoadModelFile(const std::string& path, std::string* notes = nullptr);

// The same from text; `name` is what messages call it, `folder` where side files are (empty:
// nowhere).
absl::StatusOr<Graph> ParseModel(const std::string& text, const std::string& name,
                                 const std::string& folder = "", std::string* notes = nullptr);

}  // namespace partita
