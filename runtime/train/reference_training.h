#pragma once

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/parallel/strategy.h"
#include "graph/partition/partition.h"
#include "runtime/executor/executor_setup.h"
#include "runtime/train/reference/reference_folder.h"

namespace partita {

// Trains as the reference did, split over devices, and returns the values for CompareWithReference:
// losses, final weights and, of the first step, logits and gradients. `graph` is what
// BuildReferenceGraph made; `options.extra_outputs` is filled in here. DataLoss, naming the tensor,
// if copies of a weight or state differ after a step.
absl::StatusOr<RunValues> TrainSplitOnReference(const Graph& graph,
                                                const ReferenceFolder& reference,
                                                const Strategy& strategy, PartitionOptions options,
                                                const ExecutorSetup& setup);

}  // namespace partita
