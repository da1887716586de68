#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/parallel/strategy.h"
#include "graph/partition/partition.h"
#include "runtime/backend/backend.h"
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

// How far the reference's values are from exact ones by no more than the order of its sums: twice
// the largest difference of each tensor's elements from it over several trainings on one device of
// `noisy`, a backend whose results differ by a rounding at every run. Where an activation is nearly
// zero before a ReLU, that decides whether a gradient passes, and is far above the tolerances.
absl::StatusOr<ByTensor> RoundingOfReference(const Graph& graph, const ReferenceFolder& reference,
                                             std::shared_ptr<const Backend> noisy);

}  // namespace partita
