#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/parallel/plan.h"
#include "graph/parallel/strategy.h"
#include "graph/partition/planned_step.h"
#include "graph/precision.h"
#include "runtime/executor/executor_setup.h"
#include "runtime/support/tolerance.h"
#include "tools/workflow/option_checks.h"
#include "tools/workflow/training_model.h"

namespace partita {

struct VerificationRequest {
  bool quick = false;  // true: only the float part
  // Backends that run the plan's float part, all devices on this host, those of cuda on one GPU;
  // classes for which none is chosen run on reference.
  std::vector<BackendOfClass> backends;
  int steps = 2;
  // Precision of the float part, on devices that have it.
  Precision precision = Precision::kFloat32;
  std::string profile = "partita.profile.db";  // with the algorithms that are fast on GPUs
  // Float: of the largest element of a tensor.
  double tolerance = ToleranceOf(Precision::kFloat32);
  uint64_t seed = 1;
  // Most memory of the run; 0: nine tenths of what this host has available now.
  int64_t memory_bytes = 0;
  // Forward and backward multiply-adds of one of the runs that are compared, all steps together,
  // that VerifyTrainingPlan aims at.
  int64_t multiply_adds = 4'000'000'000;
  // Stop flag: when it becomes true, the result covers the comparisons until then. Null: never.
  const std::atomic<bool>* stop = nullptr;
  // How many training steps are compared, of how many; half of one by the plan's run alone.
  std::function<void(double done, double wanted)> progress;

  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit(Option{.name = "quick", .help = "only the float part"}, self.quick);
    const auto on_machine = InGroup("Machine", visit);
    on_machine(BackendOption("that runs the plan's float part", "reference"), self.backends);
    on_machine(Option{.name = "profile",
                      .help = "profile database in which the fastest algorithms of GPUs are kept",
                      .check = PlaceName(),
                      .of_one_rank = true},
               self.profile);
    visit(
        Option{
            .name = "seed", .help = "of weights and data, or of the random plans", .check = Seed()},
        self.seed);
  }
};

struct VerificationResult {
  bool equal = false;        // true: proven, thus not if interrupted
  bool interrupted = false;  // true: stopped before everything was compared, and without a
                             // difference so far
  bool ring_checked = false;
  int steps_compared = 0;        // training steps, counted in every arithmetic
  int steps_to_compare = 0;      // training steps that are compared if nothing stops it
  std::string arithmetic;        // arithmetic of the last comparison beside the ring
  double tolerance = 0;          // its tolerance, of the largest element of a tensor
  double max_abs_error = 0;      // its largest error, over all tensors
  std::string rounding;          // note for people where float32 could not tell; else empty
  std::string first_difference;  // empty if equal
  int64_t batch = 0;             // batch that was run
  std::string note;              // note for people of what was not done
};

// The exit code of the verb `verify`: 0 if equal, 1 if not, 130 if interrupted.
int ExitCodeOf(const VerificationResult& result);

// Steps to verify: the way in which a graph and its strategy become the step that runs on
// `devices`. `make` is called with the graph and with the same graph over the ring.
struct StepsToVerify {
  const Graph& graph;
  const Strategy& strategy;
  int devices = 1;
  std::function<absl::StatusOr<PlannedStep>(const Graph&)> make;
  // Devices that run the float part; none: virtual devices of the reference backend.
  std::vector<PlacedDevice> float_devices = {};
  std::string communicator = "";  // between them; empty: CommunicatorBetween says
  std::string nccl_library = "libnccl.so.2";
};

// Proves steps equal to the serial model, symbolically by the plan verifier and by executing both:
// in the ring, bit for bit (unless quick), and in float within the tolerance; weights, states, loss
// and metrics after every step, and copies of a weight with each other; then that a NaN among the
// samples makes no fewer weights NaN or infinite than in the serial model. Steps that differ in
// float32 by more than the tolerance are compared again in float64 on the reference backend. If they
// agree there, the model amplifies rounding: equal where the reference backend ran float32 as well;
// a difference that says so where other kernels did, which this does not prove. Where the model's
// weights or the serial run are not finite themselves, that is the difference. One that execution
// finds is reported rather than the verifier's; steps with malformed tasks are not executed.
// InvalidArgument if the strategy or the order is at fault; ResourceExhausted with the bytes needed
// where the serial run and the arenas of all devices, which share this host, do not fit.
absl::StatusOr<VerificationResult> VerifySteps(const StepsToVerify& steps,
                                               const VerificationRequest& request);

// VerifySteps of a plan, whatever machine it is for, in the plan's order.
absl::StatusOr<VerificationResult> VerifyEqual(const Graph& graph, const Plan& plan,
                                               const VerificationRequest& request);

// The same for a plan of `model`, at the model's batch or, where that takes too much memory or
// arithmetic for plain loops, at a smaller one: halved as often as is needed and as the plan's
// splits of the batch allow. ResourceExhausted, with the bytes needed, where the smallest does not
// fit in memory. The plan verifier proves the plan at its own batch and formats, too.
absl::StatusOr<VerificationResult> VerifyTrainingPlan(const TrainingModel& model, const Plan& plan,
                                                      const VerificationRequest& request);

}  // namespace partita
