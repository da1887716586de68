#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/graph.h"
#include "graph/model/pending_values.h"
#include "graph/model_sizes.h"

namespace partita {

struct ImportOptions {
  // The batch size; 0: the model's own, or 64 if the file leaves it open. A model exported with
  // another static batch is re-batched: the first extent of its input is replaced, and so is the
  // first extent of reshape targets that are constants holding the old batch.
  int64_t batch = 0;
  // Batch normalisation keeps the statistics of the file and trains scale and shift only.
  bool freeze_bn = false;
  // Sizes of a model of the zoo, whose graph is made for them. A file has the sizes that it has.
  ModelSizes sizes;
  // The graph's name; empty: the file's name without its ending.
  std::string name;
  WeightValues values = WeightValues::kIfPresent;
};

// A forward graph in training form: batch normalisation and dropout of an inference graph are taken
// as in training. Weights keep the names of the file; an operator is named after its weight
// ("features.0" reads "features.0.weight"), others as their nodes. Weights without values start
// like PyTorch's: weights and biases of convolutions and linear layers uniform in +-1/sqrt(fan_in),
// scale and variance of batch normalisation 1, all others 0 (factors: 1).
struct ImportedModel {
  Graph graph;
  // Notes for the user: nodes that were folded, changed or left out.
  std::vector<std::string> notes;
  // Layers into which the exporter is known to have folded a batch normalisation: what is trained
  // is another network than the one that was exported.
  std::vector<std::string> folded_batch_norms;
  // Paths of the files that its weights are in beside its own, whether they are there or not.
  std::vector<std::string> side_files = {};
  // ONNX operators of the nodes that the output needs, with their numbers, most frequent first.
  std::vector<std::pair<std::string, int>> operators;
  int64_t opset = 0;
  uint64_t source_fingerprint = 0;  // fingerprint of the file's bytes
};

// Reads an ONNX file, with weights from its side files as options.values says, which are read when
// all else is good: ResourceExhausted where they do not fit in memory. InvalidArgument for anything
// wrong with the model; operators that are not supported are listed all at once, with node and
// opset.
absl::StatusOr<ImportedModel> ImportOnnx(const std::string& path,
                                         const ImportOptions& options = {});

// The same from bytes; `name` is what messages call them. Side files count as absent.
absl::StatusOr<ImportedModel> ImportOnnxBytes(absl::string_view bytes, const std::string& name,
                                              const ImportOptions& options = {});

// The unsupported operators of a failed import, one line for each node ("Erf 'node_gelu' (opset
// 18)"); empty if it failed for another reason.
std::vector<std::string> UnsupportedOperators(const absl::Status& status);

// Name and description of every supported ONNX operator, by name.
std::vector<std::pair<absl::string_view, absl::string_view>> OnnxOperatorTable();

}  // namespace partita
