#include "tools/workflow/priced_machine.h"

#include "cost_model/discovery.h"
#include "cost_model/fit.h"
#include "cost_model/machines.h"
#include "cost_model/profile_db.h"
#include "graph/support/status_macros.h"
#include "runtime/backend/backends.h"

namespace partita {

std::string LocalBackendName() { return MakeBackend("cpu").ok() ? "cpu" : "reference"; }

PartitionChoices DefaultChoices(const PricedMachine& priced) {
  PartitionChoices choices;
  choices.native_formats = priced.is_local && LocalBackendName() == "cpu";
  return choices;
}

MemorySizes SizesOn(const PricedMachine& priced) {
  std::shared_ptr<const Profile> known;
  for (const auto& profile : priced.profiles) {
    if (profile != nullptr) known = profile;
  }
  if (known == nullptr) return {};
  return {nullptr, [known](const KernelSignature& signature) -> int64_t {
            const Timing* timing = known->Find(signature);
            return timing == nullptr ? 0 : timing->scratch_bytes;
          }};
}

namespace {

// A file of this host's figures is this host too; one that was made on another is not.
absl::StatusOr<bool> IsThisHost(const Machine& machine, const std::string& asked_for) {
  if (asked_for == "local") return true;
  if (machine.name != "local") return false;
  ASSIGN_OR_RETURN(const Host host, ExamineHost());
  return machine.ClassOf(DeviceId(0)).hardware == host.hardware;
}

// What the records say about the machine as a whole replaces what was estimated from its clock: the
// figures that price tasks which were not measured themselves.
absl::StatusOr<Machine> WithMeasuredRates(Machine machine, const ProfileDb& db) {
  ASSIGN_OR_RETURN(const auto records,
                   db.Records(FingerprintOf(machine, DeviceId(0), LocalBackendName())));
  if (records.empty()) return machine;
  const std::string device_class = machine.topology.device(DeviceId(0)).device_class;
  return ApplyRates(std::move(machine), device_class, RatesFrom(records));
}

}  // namespace

absl::StatusOr<PricedMachine> PriceMachine(const MachineRequest& request) {
  PricedMachine priced;
  ASSIGN_OR_RETURN(Machine machine, FindMachine(request.machine, request.devices));
  ASSIGN_OR_RETURN(priced.is_local, IsThisHost(machine, request.machine));
  priced.machine = std::make_shared<const Machine>(machine);
  DeviceProfiles& profiles = priced.profiles;
  DeviceProfiles alone;
  if (priced.is_local) {
    auto db = ProfileDb::Open(request.profile, ProfileDb::Mode::kRead);
    if (db.ok()) {
      const std::string backend = LocalBackendName();
      ASSIGN_OR_RETURN(
          profiles, LoadProfiles(*db, *priced.machine, {backend, request.foreign_profile, false}));
      ASSIGN_OR_RETURN(
          alone, LoadProfiles(*db, *priced.machine, {backend, request.foreign_profile, true}));
      for (const auto& profile : profiles) {
        if (profile != nullptr) priced.records = std::max(priced.records, profile->size());
      }
      ASSIGN_OR_RETURN(machine, WithMeasuredRates(std::move(machine), *db));
      priced.machine = std::make_shared<const Machine>(std::move(machine));
    } else if (!absl::IsNotFound(db.status())) {
      return db.status();
    }
  }
  priced.model = MakeDefaultCostModel(priced.machine, profiles, std::move(alone));
  return priced;
}

}  // namespace partita
