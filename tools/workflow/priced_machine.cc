#include "tools/workflow/priced_machine.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cost_model/casts.h"
#include "cost_model/discovery.h"
#include "cost_model/fit.h"
#include "cost_model/gpu_machine.h"
#include "cost_model/machines.h"
#include "cost_model/profile_db.h"
#include "graph/support/doing.h"
#include "graph/support/status_macros.h"
#include "runtime/backend/backends.h"
#include "runtime/backend/gpus.h"

namespace partita {

PartitionChoices DefaultChoices(const PricedMachine& priced) {
  PartitionChoices choices{.precision = priced.precision,
                           .nondeterministic = priced.nondeterministic};
  for (const Device& device : priced.machine->topology.devices()) {
    choices.native_formats |= priced.is_local && BackendOf(device, priced.backends) == "cpu";
  }
  for (const std::vector<DeviceId>& devices : DevicesByClass(priced.machine->topology)) {
    const Device& device = priced.device(devices[0]);
    const bool stays = priced.PrecisionOf(devices[0]) != priced.precision;
    if (device.kind == DeviceKind::kGpu && stays) {
      choices.float32_classes.push_back(device.device_class);
    }
  }
  return choices;
}

Precision PricedMachine::PrecisionOf(DeviceId id) const {
  return HasPrecision(BackendOf(device(id), backends), precision) ? precision : Precision::kFloat32;
}

MemorySizes SizesOn(const PricedMachine& priced) {
  std::vector<std::shared_ptr<const Profile>> profiles;
  for (const std::vector<DeviceId>& devices : DevicesByClass(priced.machine->topology)) {
    if (priced.profiles.empty()) break;
    if (priced.profiles[devices[0].index()] == nullptr) continue;
    profiles.push_back(priced.profiles[devices[0].index()]);
  }
  if (profiles.empty() && priced.precision == Precision::kFloat32) return {};
  return {nullptr, [profiles](const KernelSignature& signature) {
            int64_t most = -1;
            for (const auto& profile : profiles) {
              const Timing* timing = profile->Find(signature);
              if (timing != nullptr) most = std::max(most, timing->scratch_bytes);
            }
            return most >= 0 ? most : CastsOf(signature).scratch_bytes;
          }};
}

std::vector<std::vector<DeviceId>> DevicesByClass(const DeviceTopology& topology) {
  std::vector<std::vector<DeviceId>> classes;
  for (int d = 0; d < topology.size(); ++d) {
    const std::string& name = topology.device(DeviceId(d)).device_class;
    auto known = std::find_if(classes.begin(), classes.end(), [&](const auto& devices) {
      return topology.device(devices[0]).device_class == name;
    });
    if (known == classes.end()) known = classes.insert(classes.end(), std::vector<DeviceId>());
    known->push_back(DeviceId(d));
  }
  return classes;
}

namespace {

// A file of hosts like this one is measured here; one that was made on another is not.
absl::StatusOr<bool> IsThisHost(const Machine& machine, const std::string& asked_for) {
  if (asked_for == "local") return true;
  if (machine.ClassOf(DeviceId(0)).hardware.empty()) return false;
  ASSIGN_OR_RETURN(const Host host, ExamineHost());
  const absl::StatusOr<GpuHost> gpus = ExamineGpus();
  size_t next_gpu = 0;
  for (int d = 0; d < machine.topology.size(); ++d) {
    const DeviceId id(d);
    std::string hardware = host.hardware;
    if (machine.topology.device(id).kind == DeviceKind::kGpu) {
      if (!gpus.ok()) continue;  // nothing tells that they are others
      if (next_gpu == gpus->gpus.size()) return false;
      hardware = HardwareText(gpus->gpus[next_gpu++], gpus->driver);
    }
    if (machine.ClassOf(id).hardware != hardware) return false;
  }
  return true;
}

// What the records say about the machine as a whole replaces what was estimated from its clock: the
// figures that price tasks which were not measured themselves.
absl::StatusOr<Machine> WithMeasuredRates(const PricedMachine& priced, const ProfileDb& db,
                                          std::set<std::string>& measured_products) {
  Machine machine = *priced.machine;
  for (const std::vector<DeviceId>& devices : DevicesByClass(priced.machine->topology)) {
    ASSIGN_OR_RETURN(auto records, db.Records(priced.FingerprintOf(devices[0])));
    if (!priced.nondeterministic) {
      std::erase_if(records, [](const ProfileRecord& record) { return !IsDeterministic(record); });
    }
    if (records.empty()) continue;
    const std::string& device_class = priced.device(devices[0]).device_class;
    const MeasuredRates rates = RatesFrom(records);
    for (const PrecisionRate& rate : rates.precision_rates) {
      if (rate.precision == priced.precision) measured_products.insert(device_class);
    }
    ASSIGN_OR_RETURN(machine, ApplyRates(std::move(machine), device_class, rates));
  }
  return machine;
}

absl::Status LoadRecords(const MachineRequest& request, PricedMachine& priced,
                         DeviceProfiles& uncontended, std::set<std::string>& measured_products) {
  const auto db = ProfileDb::Open(request.profile, ProfileDb::Mode::kRead);
  if (absl::IsNotFound(db.status())) return absl::OkStatus();
  RETURN_IF_ERROR(db.status());
  ProfileRequest wanted{
      .backend = [&priced](const Device& device) { return BackendOf(device, priced.backends); },
      .allow_foreign = request.foreign_profile};
  ASSIGN_OR_RETURN(priced.profiles, LoadProfiles(*db, *priced.machine, wanted));
  wanted.uncontended = true;
  ASSIGN_OR_RETURN(uncontended, LoadProfiles(*db, *priced.machine, wanted));
  for (const auto& profile : priced.profiles) {
    if (profile != nullptr) priced.records = std::max(priced.records, profile->size());
  }
  ASSIGN_OR_RETURN(Machine machine, WithMeasuredRates(priced, *db, measured_products));
  priced.machine = std::make_shared<const Machine>(std::move(machine));
  return absl::OkStatus();
}

// Products in a precision are priced by a rate of that precision or by measurement, never as if
// they were in float32. `measured`: classes whose products were.
absl::Status CheckRates(const MachineRequest& request, const PricedMachine& priced,
                        const std::set<std::string>& measured) {
  for (const std::vector<DeviceId>& devices : DevicesByClass(priced.machine->topology)) {
    const DeviceClass& one = priced.machine->ClassOf(devices[0]);
    const Precision precision = priced.PrecisionOf(devices[0]);
    const bool has_rate =
        std::any_of(one.precision_rates.begin(), one.precision_rates.end(),
                    [&](const PrecisionRate& rate) { return rate.precision == precision; });
    if (precision == Precision::kFloat32 || has_rate || measured.contains(one.name)) continue;
    if (priced.is_local && request.will_measure) continue;
    const char* name = RowOf(precision).name;
    const bool is_file = request.machine.find_first_of("/.") != std::string::npos;
    return absl::InvalidArgumentError(absl::StrCat(
        "machine '", request.machine, "' has no rate of products in ", name,
        " for its device class '", one.name, "'", priced.is_local ? ", and none were measured" : "",
        "; it would be priced as float32. Add ",
        is_file ? "" : "to a copy of it (partita machine show) ",
        "to that class: precision_rates { precision: \"", name,
        "\" matrix_flops: OPERATIONS_PER_SECOND }",
        priced.is_local ? ", or measure (--profile_time)" : "", ", or leave --precision away"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PricedMachine> PriceMachine(const MachineRequest& request) {
  const Doing doing("reading machine", request.machine);
  PricedMachine priced;
  priced.backends = request.backends;
  priced.precision = request.precision.value_or(Precision::kFloat32);
  priced.nondeterministic = request.nondeterministic;
  ASSIGN_OR_RETURN(Machine machine,
                   FindMachine(request.machine, request.devices, request.oversubscribe));
  RETURN_IF_ERROR(CheckPrecision(priced.precision, machine.topology, request.backends));
  ASSIGN_OR_RETURN(priced.is_local, IsThisHost(machine, request.machine));
  priced.machine = std::make_shared<const Machine>(std::move(machine));
  DeviceProfiles uncontended;
  std::set<std::string> measured_products;
  if (priced.is_local) {
    RETURN_IF_ERROR(LoadRecords(request, priced, uncontended, measured_products));
  } else if (request.profile != MachineRequest().profile) {
    priced.unused_profile = request.profile;
  }
  RETURN_IF_ERROR(CheckRates(request, priced, measured_products));
  priced.model = MakeDefaultCostModel(priced.machine, priced.profiles, std::move(uncontended));
  return priced;
}

}  // namespace partita
