#pragma once

#include <functional>
#include <optional>

#include "absl/status/statusor.h"
#include "graph/parallel/strategy.h"
#include "planner/collective_choice.h"
#include "planner/pods/pod_problem.h"

namespace partita {

// The strategy of all pods with the algorithms and buckets that its collectives have where the first
// pod is evaluated: those that Partition gives the step of all devices by price, found tensor by
// tensor, which takes a fraction of that step's time and memory. `of_pod`: a pod's, with its buckets
// and their size. Nothing where `interrupted`, which may be empty, was true before the end. Errors as
// those of StrategyOfPods and FragmentCache.
absl::StatusOr<std::optional<Strategy>> OfAllPodsWithCollectives(
    const PodProblem& pods, const BucketedStrategy& of_pod,
    const std::function<bool()>& interrupted = nullptr);

}  // namespace partita
