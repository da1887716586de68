#pragma once

#include "absl/status/statusor.h"
#include "graph/graph.h"

namespace partita {

// The forward graph with batch normalisation by its running statistics, which stay as they are;
// scale and shift are trained. Layers that keep no running statistics stay as they are.
absl::StatusOr<Graph> WithFrozenBatchNorm(const Graph& model);

}  // namespace partita
