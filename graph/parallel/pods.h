#pragma once

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/parallel/strategy.h"

namespace partita {

// Pods: alike groups of consecutive devices, which train equal shares of a batch by one strategy.
// Device d of the first pod has its like at d + p * devices in pod p.
struct Pods {
  int devices = 1;  // of each
  int count = 1;
};

// The strategy of all pods, of which `strategy` is one pod's. `one` is the training graph at the
// batch of a pod, `all` the same at that of all pods. Operators are split along the batch into as
// many times more parts as there are pods; those that do not see the batch are done by each pod,
// and weights lie in each as in the first. Choices for collectives are left out. InvalidArgument
// where the graphs are no such two, or an operator's batch is in no loop of its own.
//
// The host reads the loss where it is made: a reduction to a device that makes none of its terms
// would add up every one of them there.
absl::StatusOr<Strategy> StrategyOfPods(const Graph& one, const Graph& all,
                                        const Strategy& strategy, Pods pods);

// The strategy of the first pod, of which `strategy` is that of all pods, but for choices for
// collectives. InvalidArgument where no pod's is; errors as StrategyOfPods.
absl::StatusOr<Strategy> StrategyOfFirstPod(const Graph& one, const Graph& all,
                                            const Strategy& strategy, Pods pods);

}  // namespace partita
