#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/model/pending_values.h"

// Partita's own form of a model (proto/model.proto): text that lists the input, the weights and the
// operators front to back. Values of weights are in a safetensors file in the same folder
// (graph/model/weights_file.h); small models may hold them inline.

namespace partita {

// A forward graph and the other contents of its file.
struct ModelFile {
  Graph graph;
  // Layers into which the model's exporter has folded a batch normalisation, by their names.
  std::vector<std::string> folded_batch_norms;
  std::vector<std::string> notes;  // remarks on reading, for the user
  std::string side_file;           // its path, whether it is there or not; empty: it names none
};

// Writes a forward graph. If any weight has values, they go first, to a side file of their own;
// returns its name, or "" where there is none. The model that was there before, and its side file,
// stay whole until the new one is. InvalidArgument for a training graph.
absl::StatusOr<std::string> SaveModel(const Graph& model, const std::string& path,
                                      const std::vector<std::string>& folded_batch_norms = {});

// The text only, with the values inline.
absl::StatusOr<std::string> ModelText(const Graph& model);

// Reads what SaveModel writes: the same graph, with the same fingerprint. InvalidArgument for
// anything wrong with it, with the line where the text ends to make sense, and where the values are
// not those that the model was written with.
absl::StatusOr<ModelFile> LoadModelFile(const std::string& path,
                                        WeightValues values = WeightValues::kIfPresent);

// The same from text; `name` is what messages call it. There are no side files.
absl::StatusOr<ModelFile> ParseModel(const std::string& text, const std::string& name,
                                     WeightValues values = WeightValues::kIfPresent);

}  // namespace partita
