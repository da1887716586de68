#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/planner.h"
#include "planner/pods/pod_problem.h"

namespace partita {

// Experts of machines that are searched by pods: each of them inside the pods that it is fastest for,
// which train equal shares of the batch. Data parallelism is that of all devices, and so is any other
// whose pods do what all devices would do by it.
class PodExperts {
 public:
  // The evaluator is the whole machine's, and outlives this. The batch has pods (PodSizes).
  PodExperts(const Evaluator& whole, const GraphAt& graph_at);

  // The plan of an expert, by which pods it is, and whether it is that of all devices: then its origin
  // is the expert's name; otherwise as NameForPods has it. Errors as MakePlan's.
  absl::StatusOr<PlanOutcome> PlanOf(const std::string& expert) const;
  // The same where it is that of all devices, FailedPrecondition where it is not.
  absl::StatusOr<PlanOutcome> PlanOfAllDevices(const std::string& expert) const;

 private:
  struct Candidate;
  // The fastest of all pods, or why there is none.
  absl::StatusOr<Candidate> FastestOf(const std::string& expert) const;
  absl::StatusOr<PlanOutcome> PlanOf(const std::string& expert, const Candidate& fastest) const;

  const Evaluator& whole_;
  absl::Status status_;                            // why there are no pods
  std::vector<std::unique_ptr<PodProblem>> pods_;  // by size
};

// Whether plans of the machine are searched by pods.
bool HasPods(const Evaluator& whole);

}  // namespace partita
