#pragma once

#include "absl/status/statusor.h"
#include "graph/graph.h"

namespace partita {

// The forward graph of `model` (not split yet) with its batch in `count` equal parts. Each
// microbatch has its own input, operators and result, named by MicrobatchName; all read the same
// weights. The operators of a microbatch are anchored to those of the first one, so that they run
// where those do. Batch normalisation takes its moments over a microbatch, and the microbatches
// update the running statistics one after the other, as in PyTorch where gradients of several
// forward passes add up.
// InvalidArgument where the batch is no multiple of `count`, or an operator does not fit the smaller
// batch (Rebatch).
absl::StatusOr<Graph> Microbatch(const Graph& model, int count);

}  // namespace partita
