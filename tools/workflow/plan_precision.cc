#include "tools/workflow/plan_precision.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/backend/backends.h"

namespace partita {

std::string NoteOfFloat32(const DeviceTopology& topology, Precision precision,
                          std::span<const BackendOfClass> backends) {
  std::set<std::string> with, without;  // classes
  for (const Device& device : topology.devices()) {
    const bool has = HasPrecision(BackendOf(device, backends), precision);
    (has ? with : without).insert(device.device_class);
  }
  if (without.empty()) return "";
  return absl::StrCat(RowOf(precision).name, " on devices of class ", absl::StrJoin(with, ", "),
                      "; those of class ", absl::StrJoin(without, ", "), " compute in float32");
}

std::string NoteOfDeterminism(const Plan& plan, bool nondeterministic) {
  const auto& devices = plan.topology.devices();
  const bool has_gpu = std::any_of(devices.begin(), devices.end(), [](const Device& device) {
    return device.kind == DeviceKind::kGpu;
  });
  if (!has_gpu || nondeterministic == plan.choices.nondeterministic) return "";
  return nondeterministic ? "the plan was priced for deterministic GPUs: its predicted times are "
                            "those without --nondeterministic"
                          : "the plan was priced with --nondeterministic and runs without: its "
                            "predicted times are those of GPUs that sum in any order";
}

absl::StatusOr<PlanPrecision> PrecisionFor(const Plan& plan, std::optional<Precision> asked,
                                           std::span<const BackendOfClass> backends) {
  PlanPrecision run{asked.value_or(plan.choices.precision), {}};
  const char *name = RowOf(run.precision).name, *priced = RowOf(plan.choices.precision).name;
  const absl::Status there = CheckPrecision(run.precision, plan.topology, backends);
  if (!there.ok()) {
    if (asked.has_value()) return there;
    run.precision = Precision::kFloat32;
    run.notes.push_back(
        absl::StrCat("the plan was priced in ", priced, " and runs in float32: ", there.message()));
    return run;
  }
  if (run.precision != plan.choices.precision) {
    run.notes.push_back(absl::StrCat("the plan was priced in ", priced, " and runs in ", name,
                                     ": its predicted times are those of ", priced));
  }
  std::string note = NoteOfFloat32(plan.topology, run.precision, backends);
  if (!note.empty()) run.notes.push_back(std::move(note));
  return run;
}

}  // namespace partita
