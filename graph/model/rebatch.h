#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "graph/graph.h"

namespace partita {

// The same forward graph for another number of samples: the input's first extent changes, and so do
// the attributes that depend on it (counts of batch normalisation, reshape targets and crops that
// name the batch). InvalidArgument if an operator does not fit the new batch.
absl::StatusOr<Graph> Rebatch(const Graph& model, int64_t batch);

}  // namespace partita
