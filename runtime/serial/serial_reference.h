#pragma once

#include <atomic>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "runtime/train/reference/reference_folder.h"

namespace partita {

// Trains `model` (a forward graph, of the reference's batch size) serially as the reference did and
// returns the values for CompareWithReference. Cancelled when `stop` (may be null) becomes true.
absl::StatusOr<RunValues> TrainSeriallyOnReference(const Graph& model,
                                                   const ReferenceFolder& reference,
                                                   const std::atomic<bool>* stop = nullptr);

}  // namespace partita
