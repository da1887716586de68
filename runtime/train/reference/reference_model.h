#pragma once

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "runtime/train/reference/reference_folder.h"

namespace partita {

// The forward graph that a reference trained, of the batch of its samples, with its initial weights.
// An ONNX file is imported as it stands. Of a model of the zoo every weight that is trained must be
// in weights.safetensors with its shape (InvalidArgument names it); others may be, and start as the
// zoo says where they are not.
absl::StatusOr<Graph> LoadReferenceModel(const ReferenceFolder& reference);

}  // namespace partita
