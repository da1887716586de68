#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/task/buffer_assignment.h"
#include "tools/workflow/verification.h"

namespace partita {

// Arithmetic in which steps are compared with the serial model.
enum class Arithmetic : uint8_t { kRing, kFloat32, kFloat64 };

// Tolerance of kFloat64, of the largest element of a tensor. Orders of sums move elements by 2^-53
// times what the model amplifies rounding by; a part that is missing or doubled moves them by more
// than this.
constexpr double kFloat64Tolerance = 1e-6;

struct StepComparison {
  bool interrupted = false;       // true: stopped early, and without a difference so far
  std::string first_difference;   // empty if equal
  bool beyond_tolerance = false;  // whether the difference is one of size, which rounding can make
  int steps_compared = 0;         // training steps
  double max_abs_error = 0;       // over all tensors; 0 in the ring
  std::string note;               // note for people of what was not done
};

// Bytes that a step of this graph takes on devices that are all in this host's memory, and the
// serial run beside them.
int64_t BytesToCompare(const Graph& graph, const BufferAssignment& memory);

// Runs steps of a graph, whose arithmetic it is, and the serial model side by side. Float32: on the
// devices of `steps`; others: on virtual devices of the reference backend. Reports the steps that
// are compared, in halves. Errors as VerifySteps.
absl::StatusOr<StepComparison> CompareSteps(const Graph& graph, Arithmetic arithmetic,
                                            const StepsToVerify& steps,
                                            const VerificationRequest& request,
                                            const std::function<void(double)>& report);

}  // namespace partita
