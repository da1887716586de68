#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/parallel/plan.h"
#include "graph/precision.h"
#include "runtime/executor/executor_setup.h"

namespace partita {

// What a plan is run in, and what people should know about that: where its prediction is of another
// precision, and where some of its devices stay with float32.
struct PlanPrecision {
  Precision precision = Precision::kFloat32;
  std::vector<std::string> notes;
};

// "tf32 on devices of class a; those of class b compute in float32"; empty where all devices have
// the precision.
std::string NoteOfFloat32(const DeviceTopology& topology, Precision precision,
                          std::span<const BackendOfClass> backends);

// As asked, else as the plan was priced, or float32 where none of its devices has that. UsageError
// where none has what is asked for. `backends` as DevicesOf takes them.
absl::StatusOr<PlanPrecision> PrecisionFor(const Plan& plan, std::optional<Precision> asked,
                                           std::span<const BackendOfClass> backends);

}  // namespace partita
