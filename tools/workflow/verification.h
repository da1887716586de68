#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/parallel/plan.h"
#include "tools/workflow/training_model.h"

namespace partita {

struct VerificationRequest {
  bool quick = false;  // only the float part
  int steps = 2;
  double tolerance = 1e-3;  // float: of the largest element of a tensor
  uint64_t seed = 1;
  int64_t memory_bytes = int64_t{8} << 30;  // what the run may take
  // Forward and backward multiply-adds of one of the runs that are compared, all steps together,
  // that VerifyTrainingPlan aims at.
  int64_t multiply_adds = 4'000'000'000;
};

struct VerificationResult {
  bool equal = false;
  bool ring_checked = false;
  double max_abs_error = 0;      // float, over all weights
  std::string first_difference;  // empty if equal
  int64_t batch = 0;             // that was run
};

// Proves a plan equal to the serial model by executing both: in the ring, bit for bit (unless
// quick), and in float within the tolerance. The plan runs on virtual devices of the reference
// backend, whatever machine it is for. ResourceExhausted with the bytes needed where that does not
// fit.
absl::StatusOr<VerificationResult> VerifyEqual(const Graph& graph, const Plan& plan,
                                               const VerificationRequest& request);

// The same for a plan of `model`, at the model's batch or, where that takes too much memory or
// arithmetic for plain loops, at a smaller one: halved as often as is needed and as the plan's
// splits of the batch allow. ResourceExhausted, with the bytes needed, where the smallest does not
// fit in memory.
absl::StatusOr<VerificationResult> VerifyTrainingPlan(const TrainingModel& model, const Plan& plan,
                                                      const VerificationRequest& request);

}  // namespace partita
