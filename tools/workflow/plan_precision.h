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

// Precision of a run of a plan, with a note for people if its prediction is of another precision,
// or if some of its devices stay with float32.
struct PlanPrecision {
  Precision precision = Precision::kFloat32;
  std::vector<std::string> notes;
};

// "tf32 on devices of class a; those of class b compute in float32"; empty where all devices have
// the precision.
std::string NoteOfFloat32(const DeviceTopology& topology, Precision precision,
                          std::span<const BackendOfClass> backends);

// Note for people if a run's GPUs are deterministic and the plan's prediction is of others, or the
// other way round; empty: they are alike, or there is no GPU in the plan.
std::string NoteOfDeterminism(const Plan& plan, bool nondeterministic);

// Chooses the precision of a run: the one asked for, else that of the plan's prices, or float32 if
// none of its devices has that. UsageError if none has the one asked for. `backends`: see
// DevicesOf.
absl::StatusOr<PlanPrecision> PrecisionFor(const Plan& plan, std::optional<Precision> asked,
                                           std::span<const BackendOfClass> backends);

}  // namespace partita
