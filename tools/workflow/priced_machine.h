#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cost_model/cost_model.h"
#include "cost_model/default_cost_model.h"
#include "cost_model/machine.h"
#include "cost_model/measured_cost.h"
#include "graph/parallel/plan.h"
#include "graph/task/buffer_assignment.h"
#include "runtime/backend/backend.h"
#include "runtime/executor/executor_setup.h"
#include "tools/workflow/option_checks.h"

namespace partita {

struct MachineRequest {
  std::string machine = "local";  // a name or a file
  std::optional<int> devices;
  bool oversubscribe = false;  // true: allows more devices of `local` than it has cores
  std::string profile = "partita.profile.db";
  bool foreign_profile = false;          // use another machine's records
  std::vector<BackendOfClass> backends;  // see DevicesOf
  // Precision of the classes whose backends have it; the others are priced, and run, in float32.
  // Absent: all are.
  std::optional<Precision> precision;
  bool nondeterministic = false;  // true: bits of GPUs' products may differ from run to run
  // True if unknown prices will be measured, where the machine can be.
  bool will_measure = false;

  // Text of what holds where it is not given, where that is not the default of the field.
  struct Fallbacks {
    std::string machine, precision = "float32";
    bool one_count = true;  // false: the verb has an option "devices" of its own
  };
  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    VisitFields(self, visit, Fallbacks());
  }
  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit, const Fallbacks& fallbacks) {
    visit(Option{.name = "machine",
                 .help = "a name (partita list machines) or a file",
                 .check = MachineName(),
                 .fallback = fallbacks.machine,
                 .changes_plan = true},
          self.machine);
    const Option devices{.name = "devices",
                         .help = "take the first N devices",
                         .check = WholeNumber(1, kMostDevices),
                         .type = "INT",
                         .changes_plan = true};
    if (fallbacks.one_count) visit(devices, self.devices);
    visit(Option{.name = "oversubscribe",
                 .help = "divide this host into more devices than it has cores: they share cores",
                 .changes_plan = true},
          self.oversubscribe);
    visit(Option{.name = "profile",
                 .help = "profile database",
                 .check = PlaceName(),
                 .changes_plan = true},
          self.profile);
    Option backend =
        BackendOption("that runs the devices of a class, or all", "cuda for GPUs, cpu for cores");
    backend.changes_plan = true;
    visit(backend, self.backends);
    Option precision =
        PrecisionOption("of products on the devices that have it: float32, tf32, float16, bfloat16",
                        fallbacks.precision);
    precision.changes_plan = true;
    visit(precision, self.precision);
    Option nondeterministic = NondeterministicOption();
    nondeterministic.changes_plan = true;
    visit(nondeterministic, self.nondeterministic);
    visit(Option{.name = "foreign_profile",
                 .help = "use records of another machine",
                 .changes_plan = true},
          self.foreign_profile);
  }
};

// A machine with what its tasks cost.
struct PricedMachine {
  std::shared_ptr<const Machine> machine;
  std::unique_ptr<CostModel> model;
  // Whether the machine is this host, or hosts like it of which this is the first: then it can be
  // profiled.
  bool is_local = false;
  size_t records = 0;  // measured tasks known
  DeviceProfiles profiles;
  std::vector<BackendOfClass> backends;       // backends as asked for
  Precision precision = Precision::kFloat32;  // precision as asked for
  bool nondeterministic = false;              // as asked for
  // A profile that was named, and has nothing to say of a machine that is not this host; or empty.
  std::string unused_profile;

  const Device& device(DeviceId id) const { return machine->topology.device(id); }
  // Precision in which the device computes products: that asked for, if its backend has it.
  Precision PrecisionOf(DeviceId id) const;
  // Fingerprint of its records.
  DeviceFingerprint FingerprintOf(DeviceId id) const {
    return partita::FingerprintOf(*machine, id, BackendOf(device(id), backends));
  }
};

// The devices of each class, in the order of the first of them.
std::vector<std::vector<DeviceId>> DevicesByClass(const DeviceTopology& topology);

// Choices about a task graph for the machine.
PartitionChoices DefaultChoices(const PricedMachine& priced);

// Memory of kernels and buffers on it beyond their elements, as far as the profile knows; kernels
// that it does not know need room for casts, at least.
MemorySizes SizesOn(const PricedMachine& priced);

// Finds the machine and prices it, in the precision, with the records of the profile, if there is
// one. A usage error where no device has the precision; InvalidArgument where neither the machine
// nor a measurement says how fast a class is in it.
absl::StatusOr<PricedMachine> PriceMachine(const MachineRequest& request);

}  // namespace partita
